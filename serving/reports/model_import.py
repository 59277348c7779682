"""`foreserve model add`: the spec of a model, from its `config.json`, as a file for device_model/specs/models."""

import json
import re
from pathlib import Path

from device_model.specs.calibrated import UNIFORM
from device_model.specs.config_file import SpecValue
from device_model.specs.hf_config import SpecValues, read_config
from device_model.specs.law import Law
from device_model.specs.spec_file import CALIBRATION, OWN_SPECS, SPECS, names_in, own_folder
from serving.process.output_folder import make_folder
from serving.usage_error import UsageError

MODELS = SPECS / "models"
NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")


def imported(config: Path, name: str | None) -> tuple[str, str]:
    """Return the spec of the model that `config` describes, and what to do with it. Raise `SpecError` or `UsageError`.

    `name` is that of the model and of its file; the default is the folder of `config`, in small letters.
    """
    figures = read_config(config)
    name = _checked_name(name or config.resolve().parent.name.lower())
    return spec_text(name, figures), _advice(name, figures)


def saved(name: str, spec: str) -> Path:
    """Keep a spec among the user's own, from where it is used like a shipped one; return its path. Raise UsageError."""
    folder = own_folder(MODELS)
    if folder is None:
        raise UsageError(f"--save needs a folder: set {OWN_SPECS} to one of yours (export {OWN_SPECS}=~/specs).")
    if (MODELS / f"{name}.toml").exists():
        raise UsageError(f"--save is {name!r}, which is the name of a model that ships with foreserve: choose another.")
    make_folder(OWN_SPECS, folder)
    path = folder / f"{name}.toml"
    path.write_text(spec, encoding="utf-8")
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


def _advice(name: str, figures: SpecValues) -> str:
    advice = (
        f"Save it as models/{name}.toml in a folder that {OWN_SPECS} names (--save {name} does), or as "
        f"device_model/specs/models/{name}.toml, to use it as --model {name}."
    )
    if "experts" not in figures:
        return advice
    return (
        f"{advice}\nIts calibration is {UNIFORM!r}: no locality of experts, so that an expert cache looks slower "
        "than it is. With hit rates of this model at hand, fit a calibration of its own and name it there."
    )


def _toml(figure: SpecValue) -> str:
    """Format a value for TOML, where numbers, words and truth values are as in JSON."""
    return json.dumps(figure.value)


def _checked_name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise UsageError(f"--name is {name!r}; allowed are small letters, digits, dots, dashes and underscores.")
    return name
