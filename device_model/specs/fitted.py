"""Reader of what was fitted under a law."""

from typing import TypeVar

from device_model.specs.calibrated import Locality, Speculation
from device_model.specs.law import Law
from device_model.specs.spec_file import CALIBRATION, has_name, read_named

Fitted = TypeVar("Fitted", Locality, Speculation)


def fitted(form: type[Fitted], name: str, law: Law) -> Fitted:
    """Read what was fitted under `law`; what no table was fitted for holds under both, and lies beside their folders.
    Raise DeviceError."""
    folder = CALIBRATION / law
    return read_named(form, "calibration", name, folder if has_name(folder, name) else CALIBRATION)
