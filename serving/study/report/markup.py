"""HTML of texts that anybody may have written, and of tables of figures."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, NamedTuple

from serving.study.point import shown
from serving.study.report.units import NONE, scale, short, words
from serving.study.summary import Row, is_figure

# A text that is broken into lines.
LONG = 24


class Picture(NamedTuple):
    """A drawing (SVG), with a sentence that says how to read it, and HTML that belongs below it."""

    name: str
    title: str
    caption: str
    svg: str
    below: str = ""


def figure(picture: Picture) -> str:
    """Return a picture as the page has it."""
    return (
        f'<figure id="{escape(picture.name)}"><h2>{escape(picture.title)}</h2><div class="drawn">{picture.svg}</div>'
        f"<figcaption>{escape(picture.caption)}</figcaption>{picture.below}</figure>"
    )


def paragraph(text: str, kind: str = "") -> str:
    """Return a paragraph of a sentence or some."""
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def verbatim(text: str) -> str:
    """Return a file's text as it stands."""
    return f"<pre>{escape(text)}</pre>"


def points_table(rows: Sequence[Row], names: Iterable[str], kind: str = "") -> str:
    """Rows with these columns, as far as any row has them: figures in one unit a column, settings as they stand."""
    used = [name for name in dict.fromkeys(names) if any(name in row for row in rows)]
    columns = [column(name, [row.get(name) for row in rows]) for name in used]
    return table([head for head, _ in columns], zip(*[cells for _, cells in columns], strict=True), kind)


def column(name: str, values: Sequence[Any]) -> tuple[str, list[str]]:
    """Return the heading of a column and its cells, as HTML."""
    if not is_figure(name):
        return escape(short(name)), [_cell(value) for value in values]
    of = scale(name, values)
    unit = f" <small>{of.unit}</small>" if of.unit else ""
    return escape(words(name)) + unit, [f"<td class=n>{of.number(value)}</td>" for value in values]


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """Return a table of cells that are HTML."""
    lines = ["<tr>" + "".join(row) + "</tr>" for row in rows]
    top = "".join(f"<th>{head}</th>" for head in heads)
    body = "\n".join(lines)
    return f'<div class="wide"><table class="{kind}"><thead><tr>{top}</tr></thead>\n<tbody>{body}</tbody></table></div>'


def _cell(value: Any) -> str:
    if value is None:
        return f"<td>{NONE}</td>"
    text = shown(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"<td class=n>{text}</td>"
    return f"<td{' class=long' if len(text) > LONG else ''}>{escape(text)}</td>"
