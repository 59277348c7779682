"""Hardware text: the TOML file of a GPU with the figures that were measured on it."""

import json
import re
import tomllib
from pathlib import Path

from device_model.specs.spec_file import SOURCES
from device_model.validation.measured.fit import GpuFigures, GpuFit


def hardware_text(base: Path, fit: GpuFit, how: str) -> str:
    """Return the file at `base` with the fitted figures in the place of any that it had; `how` they came about is their
    source. Figures that are kept have the source that they had, if any."""
    figures = tomllib.loads(base.read_text(encoding="utf-8"))
    sources = figures.pop(SOURCES)
    fitted = {name: f"Fitted to {how}" for name in GpuFigures._fields if name not in fit.kept}
    kept = {name: f"Not measured, and kept as it was: {why}" for name, why in fit.kept.items()}
    lines = [f"# {base.stem}, with what was measured on it.", ""]
    lines += [f"{name} = {_toml(value)}" for name, value in (figures | fit.figures._asdict()).items()]
    lines += ["", f"[{SOURCES}]", *(f"{name} = {_toml(text)}" for name, text in (kept | sources | fitted).items())]
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    """Return a text or a number of a hardware file as TOML has it; bytes of file names that are no text in hex."""
    if not isinstance(value, str):
        return repr(value)
    text = value.encode("utf-8", "backslashreplace").decode("utf-8")
    return re.sub(r"\x7f", r"\\u007f", json.dumps(text, ensure_ascii=False))
