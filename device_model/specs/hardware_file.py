"""Hardware by name: a file in specs/hardware, or a size between two of them."""

import re
from dataclasses import fields, replace

from device_model.specs.spec import Hardware, SpecError
from device_model.specs.spec_file import SPECS, names_in, read_named

FOLDER = SPECS / "hardware"
BETWEEN = re.compile(r"elmoe3d-(\d+(?:\.\d+)?)gb")
LOW_GIB, HIGH_GIB = 4, 8
# Banks and PEs come in pairs, 16 to 4 GB (ELMoE-3D, Table 1): sizes between go by one bank.
BANK_GIB = 0.25


def load_hardware(name: str) -> Hardware:
    """The hardware called `name`. `elmoe3d-6gb`, say, lies between the published 4 and 8 GB, whose compute and
    bandwidth grow with their banks. Raises SpecError."""
    match = BETWEEN.fullmatch(name)
    if name in names_in(FOLDER) or match is None:
        return read_named(Hardware, "hardware", name, FOLDER)
    size = float(match[1])
    if not (LOW_GIB < size < HIGH_GIB and (size / BANK_GIB).is_integer()):
        raise SpecError(
            f"There is no hardware {name!r}; those that exist are {', '.join(names_in(FOLDER))}, "
            f"and the sizes between them in steps of {BANK_GIB} GB (a bank)."
        )
    low, high = (read_named(Hardware, "hardware", f"elmoe3d-{gib}gb", FOLDER) for gib in (LOW_GIB, HIGH_GIB))
    return _between(low, high, (size - LOW_GIB) / (HIGH_GIB - LOW_GIB))


def _between(low: Hardware, high: Hardware, share: float) -> Hardware:
    figures = {}
    for field in fields(Hardware):
        small, large = getattr(low, field.name), getattr(high, field.name)
        if not isinstance(small, str):
            figures[field.name] = type(small)(small + (large - small) * share)
    return replace(low, **figures)
