"""Drawings as SVG that stands in a page: letters are text, nothing is fetched, and the bytes are
always the same."""

import io
import re
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from serving.presentation.picture import style
from serving.study.report.combinations import Combination, PlotStyle

WIDTH_IN = 7.4
# A range that is told better by factors than by differences.
WIDE = 20.0
# Small letters, which are text in the page.
SIZES: dict[str, Any] = {
    "svg.fonttype": "none",
    "font.size": 7.5,
    "axes.titlesize": 8,
    "legend.fontsize": 7.5,
    "lines.markersize": 4.5,
}


def drawn(name: str, title: str, height_in: float, draw: Callable[[Figure], None]) -> str:
    """Return what `draw` puts on an empty figure, as SVG. `name` keeps its definitions apart from those of other
    drawings; `title` describes it to those who can't see it."""
    with style(**SIZES, **{"svg.hashsalt": name}):
        figure = Figure(figsize=(WIDTH_IN, height_in), layout="constrained")
        draw(figure)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None}, transparent=True)
    return _inline(file.getvalue(), name, title)


def legend(
    figure: Figure, shown: Sequence[Combination], *more: Artist, markers: bool = True, lines: bool = True
) -> None:
    """Below the drawing: what each combination looks like."""
    handles: list[Artist] = [handle(each.look, each.label, markers, lines) for each in shown]
    handles += more
    longest = max((len(str(each.get_label())) for each in handles), default=1)
    columns = max(1, min(len(handles), int(110 / (longest + 9))))
    figure.legend(handles=handles, loc="outside lower left", ncols=columns, handlelength=3.2, columnspacing=1.6)


def handle(look: PlotStyle, label: str, markers: bool = True, lines: bool = True) -> Line2D:
    """Return a line of the legend."""
    marker: Any = look.marker if markers else ""
    dash: Any = look.dash if lines else ""
    return Line2D([], [], color=look.colour, linestyle=dash, marker=marker, label=label)


def percent(axis: Axis) -> None:
    """Shares as per cent."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))


def wide(values: Sequence[float]) -> bool:
    """Tell whether they are told better by factors."""
    return min(values, default=0) > 0 and max(values) / min(values) > WIDE


def by_factors(panel: Axes, which: str, values: Sequence[float]) -> None:
    """Make an axis logarithmic, with plain numbers; `which` is "x" or "y"."""
    panel.set(**{f"{which}scale": "log"})
    axis: Axis = getattr(panel, f"{which}axis")
    axis.set_major_locator(LogLocator(subs=(1.0,) if max(values) / min(values) > 1e3 else (1.0, 2.0, 5.0)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _inline(svg: str, name: str, title: str) -> str:
    """Return an SVG file as an element of a page: as wide as there is room, letters as those around it."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>|<defs>\s*<style.*?</style>\s*</defs>|<!--.*?-->", "", body, flags=re.S)
    body = re.sub(r"<[^>]+>", lambda tag: _own(tag[0], name), body)
    size = re.search(r'viewBox="([^"]*)"', body)
    assert size is not None
    opening = f'<svg viewBox="{size[1]}" role="img" aria-labelledby="{name}-title"><title id="{name}-title">'
    return re.sub(r"\s*\n\s*", "\n", opening + escape(title) + "</title>" + body[body.index(">") + 1 :]).strip()


def _own(tag: str, name: str) -> str:
    """Return a tag with names that no other drawing has."""
    tag = re.sub(r'\bid="', f'id="{name}-', tag)
    tag = tag.replace("url(#", f"url(#{name}-").replace('xlink:href="#', f'href="#{name}-')
    # The page's letters are narrower than those that the drawing was laid out for.
    tag = tag.replace(" font-family: 'DejaVu Sans';", "").replace('transform="rotate(-0 ', 'transform="rotate(0 ')
    return re.sub(r"(\d\.\d\d)\d+", r"\1", tag)
