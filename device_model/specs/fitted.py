"""Reader of calibrations: of what was fitted under a law, and of what holds whatever the law."""

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from device_model.specs.calibrated import Locality, Speculation
from device_model.specs.law import Law
from device_model.specs.spec import SpecError
from device_model.specs.spec_file import (
    CALIBRATION,
    has_name,
    names_in,
    own_in,
    path_of,
    read_named,
    read_spec,
    unknown,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Fitted = TypeVar("Fitted", Locality, Speculation)
Calibration = TypeVar("Calibration", bound="DataclassInstance")
KIND = "calibration"


def fitted(form: type[Fitted], name: str, law: Law) -> Fitted:
    """Read what was fitted under `law`; what no table was fitted for holds under both, and lies beside their folders.
    Raise DeviceError."""
    return read_calibration(form, name, CALIBRATION / law, CALIBRATION)


def read_calibration(form: type[Calibration], name: str, *folders: Path) -> Calibration:
    """Read the calibration `name`, from the first of `folders` that has it (left out: that of all calibrations). Raise
    SpecError, and UnknownName with those that there are of this `form`: others would not do in its place."""
    places = folders or (CALIBRATION,)
    for folder in places:
        if has_name(folder, name):
            return read_named(form, KIND, name, folder)
    names = sorted(each for folder in places for each in names_in(folder) if _is_of(form, path_of(each, folder)))
    raise unknown(KIND, name, names, own=own_in(CALIBRATION))


def _is_of(form: type[Calibration], path: Path) -> bool:
    try:
        read_spec(form, path)
    except SpecError:
        return False
    return True
