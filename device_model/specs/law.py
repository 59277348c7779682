"""Law: the two readings of ELMoE-3D's Table 3, by which a cache of experts serves a pass."""

from enum import StrEnum


class Law(StrEnum):
    """`realisable` serves no more than HB holds; `published` has the hit rates of the table, whatever HB holds."""

    REALISABLE = "realisable"
    PUBLISHED = "published"
