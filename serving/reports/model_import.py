"""`foreserve model add`: the spec of a model, from its `config.json`, as a file for device_model/specs/models."""

import json
import os
import re
from pathlib import Path
from typing import NamedTuple

from device_model.specs.calibrated import UNIFORM
from device_model.specs.config_file import SpecValue
from device_model.specs.hf_config import SpecValues, read_config
from device_model.specs.law import Law
from device_model.specs.spec_file import CALIBRATION, OWN_SPECS, SPECS, names_in
from serving.process.output_folder import make_folder
from serving.usage_error import UsageError

MODELS = SPECS / "models"
NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")


class Imported(NamedTuple):
    """A model's spec, the name of the model, and what is assumed of it ("": nothing)."""

    spec: str
    name: str
    assumed: str

    @property
    def advice(self) -> str:
        """Return what to do with the spec, and what is assumed."""
        where = (
            f"Save it as models/{self.name}.toml in a folder that {OWN_SPECS} names (--save {self.name} does), or as "
            f"device_model/specs/models/{self.name}.toml, to use it as --model {self.name}."
        )
        return "\n".join(filter(None, (where, self.assumed)))


def imported(config: Path, name: str | None) -> Imported:
    """Return the spec of the model that `config` describes. Raise `SpecError` or `UsageError`.

    `name` is that of the model and of its file; the default is the folder of `config`, in small letters.
    """
    figures = read_config(config)
    if name is None:
        name = config.resolve().parent.name.lower()
        check_spelling(name, "The folder of the file, which names the model without --name,")
    return Imported(spec_text(name, figures), name, _assumed(figures))


def check_spelling(name: str, what: str) -> None:
    """Raise UsageError if a model can't be called `name`, which `what` says."""
    if not NAME.fullmatch(name):
        raise UsageError(f"{what} is {name!r}; allowed are small letters, digits, dots, dashes and underscores.")


def place_of(name: str, replace: bool) -> Path:
    """Return where to keep a spec among the user's own, from where it is used like a shipped one, in a folder that is
    made. Raise UsageError, also if there is such a spec already and it is not to be replaced."""
    check_spelling(name, "--save")
    own = os.environ.get(OWN_SPECS)
    if not own:
        raise UsageError(f"--save needs a folder: set {OWN_SPECS} to one of yours (export {OWN_SPECS}=~/specs).")
    if (MODELS / f"{name}.toml").exists():
        raise UsageError(f"--save is {name!r}, which is the name of a model that ships with foreserve: choose another.")
    path = Path(own) / MODELS.relative_to(SPECS) / f"{name}.toml"
    if path.exists() and not replace:
        raise UsageError(f"--save is {name!r}, and there is {path} already: choose another, or give --replace, too.")
    make_folder(OWN_SPECS, path.parent)
    return path


def spec_text(name: str, figures: SpecValues) -> str:
    """Return the text of the TOML file."""
    values = [f"{key} = {_toml(figure)}" for key, figure in figures.items()]
    # Words have no source of their own, as in all specs.
    sources = [f"{key} = {json.dumps(figure.source)}" for key, figure in figures.items() if figure.source]
    lines = [f"# {name}, from its config.json by `foreserve model add`.", "", *_calibration(figures), "", *values]
    return "\n".join([*lines, "", "[sources]", *sources]) + "\n"


def _calibration(figures: SpecValues) -> list[str]:
    """Return the lines of the calibration, which no `config.json` has, and why this one."""
    if "experts" not in figures:
        return [f'calibration = "{UNIFORM}" # in specs/calibration; it has no effect on a model without experts']
    fitted = ", ".join(sorted({*names_in(CALIBRATION / Law.REALISABLE)} & {*names_in(SPECS / "models")}))
    return [
        f"# In specs/calibration: how local its routing is. {UNIFORM} assumes no locality, which claims least.",
        f"# Those that are fitted to a model bear its name ({fitted}): name one if this model routes like it.",
        f'calibration = "{UNIFORM}"',
    ]


def _assumed(figures: SpecValues) -> str:
    if "experts" not in figures:
        return ""
    return (
        f"Its calibration is {UNIFORM!r}: no locality of experts, so that an expert cache looks slower than it is. "
        "With hit rates of this model at hand, fit a calibration of its own and name it there."
    )


def _toml(figure: SpecValue) -> str:
    """Format a value for TOML, where numbers, words and truth values are as in JSON."""
    return json.dumps(figure.value)
