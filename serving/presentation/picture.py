"""Pictures in one style, without `pyplot` and the state that it keeps: the same figures give the same file."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

INK, DIM, FAINT = "#1b1f24", "#5b6470", "#dde2e8"
STYLE: dict[str, Any] = {
    "text.color": INK,
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "axes.titlelocation": "left",
    "axes.labelcolor": INK,
    "axes.edgecolor": DIM,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.5,
    "xtick.color": DIM,
    "ytick.color": DIM,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "hatch.linewidth": 0.6,
}
DPI = 130


def style(**more: Any) -> AbstractContextManager[None]:
    """Have what is drawn in this context look like all our pictures, whatever the user's own matplotlibrc says."""
    settings: Any = {**dict(matplotlib.rcParamsDefault), **STYLE, **more}
    return matplotlib.rc_context(settings)


def panels(size_in: tuple[float, float], rows: int = 1, columns: int = 1, **shared: Any) -> tuple[Figure, Any]:
    """Return an empty figure of a size in inches, and its panels, as [row][column]. To be called within `style`."""
    figure = Figure(figsize=size_in, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **shared)


def write_png(pictures: Mapping[str, Callable[[], Figure]], folder: Path) -> list[Path]:
    """Draw each picture and write it as `NAME.png`; return the paths. Raise OSError."""
    paths = []
    for name, draw in pictures.items():
        with style():
            paths.append(folder / f"{name}.png")
            # Without the library's version.
            draw().savefig(paths[-1], dpi=DPI, metadata={"Software": None})
    return paths
