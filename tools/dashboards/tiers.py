"""What hardware of any kind calls its memory tiers: panels show each under its own name."""

from importlib import import_module

from device_model.specs.hardware import TierNames
from device_model.specs.hardware_file import KINDS
from device_model.specs.spec_file import names_in


def all_tiers() -> list[TierNames]:
    """Return the names of the fast and the slow tier of each kind of hardware."""
    return [import_module(f"device_model.specs.kinds.{kind}").Hardware.tiers for kind in names_in(KINDS, ".py")]


FAST, SLOW = (tuple(dict.fromkeys(names)) for names in zip(*all_tiers(), strict=True))
"""The names of fast tiers, and those of slow ones or links."""


def any_of(names: tuple[str, ...]) -> str:
    """Return a regular expression for any of them."""
    return "|".join(names)
