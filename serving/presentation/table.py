"""A table of texts, made once and shown in a terminal or in Markdown."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table as RichTable
from rich.text import Text

BETWEEN = 2
"""Blanks between two columns."""
NARROWEST = 24
"""How narrow a column of words may become before it stands in a part of its own; its longest word is never cut."""


@dataclass(frozen=True)
class Table:
    """Headings and rows of texts.

    `words` names the columns that are read from the left; in all others are figures. After a row in `gaps` comes an
    empty one. Texts wrap between words, and none is cut within one. A table that is wider than the terminal is shown in
    parts, one below the other, each with the first `keys` columns (0: those of words with which it begins, and one at
    least), unless it `is_whole`.
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    words: Collection[int] = (0,)
    gaps: Collection[int] = ()
    is_whole: bool = False
    keys: int = 0

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table as `rich` prints it, in as many parts as there must be; no text is taken for its markup."""
        for number, columns in enumerate(self._parts(options.max_width)):
            if number:
                yield ""
            yield self._part(columns, self.title if number == 0 else "", options.max_width)

    def _part(self, columns: Sequence[int], title: str, room: int) -> RichTable:
        table = RichTable(box=None, pad_edge=False, title=Text(title, "bold") if title else None, title_justify="left")
        for index, width in self._widths(columns, room).items():
            in_words = index in self.words
            justify: Literal["left", "right"] = "left" if in_words else "right"
            table.add_column(Text(self.heads[index]), justify=justify, no_wrap=not in_words, width=width)
        for number, row in enumerate(self.rows):
            table.add_row(*(Text(row[index]) for index in columns))
            if number in self.gaps:
                table.add_row()
        return table

    def _parts(self, room: int) -> Iterator[list[int]]:
        """Yield the columns of each part of the table that there is room for."""
        all_columns = list(range(len(self.heads)))
        keys = all_columns[: self.keys or self._words_at_the_start()]
        if self.is_whole or self._least(all_columns) <= room:
            yield all_columns
            return
        part = keys
        for index in all_columns[len(keys) :]:
            if len(part) > len(keys) and self._least([*part, index]) > room:
                yield part
                part = keys
            part = [*part, index]
        yield part

    def _words_at_the_start(self) -> int:
        """Return how many columns of words the table begins with; 1 if none, or if all are of words."""
        return next((index for index in range(len(self.heads)) if index not in self.words), 1) or 1

    def _widths(self, columns: Sequence[int], room: int) -> dict[int, int]:
        """Return how wide each column is. What room is left beside figures and the longest words is for those texts
        that wrap most."""
        wanted = {index: self._width(index) for index in columns}
        widths = {index: self._least_of(index) for index in columns}
        if self._least(columns) > room:
            widths |= {index: self._longest_word(index) for index in columns if index in self.words}
        for _ in range(room - sum(widths.values()) - BETWEEN * (len(columns) - 1)):
            most = max(columns, key=lambda index: wanted[index] / (widths[index] or 1))
            widths[most] += widths[most] < wanted[most]
        return widths

    def _least(self, columns: Sequence[int]) -> int:
        """Return how many characters wide a part must be."""
        return sum(map(self._least_of, columns)) + BETWEEN * (len(columns) - 1)

    def _least_of(self, index: int) -> int:
        if index not in self.words:
            return self._width(index)
        # Where there are figures, words have room beside them; where all are words, each column has what is left.
        narrowest = 0 if len(self.words) == len(self.heads) else NARROWEST
        return min(self._width(index), max(narrowest, self._longest_word(index)))

    def _width(self, index: int) -> int:
        """Return the length of the longest line in a column."""
        return max((cell_len(line) for text in self._texts(index) for line in text.splitlines()), default=0)

    def _longest_word(self, index: int) -> int:
        """Return the length of the longest word in a column."""
        return max(cell_len(word) for text in self._texts(index) for word in (text.split() or [""]))

    def _texts(self, index: int) -> Iterator[str]:
        return (row[index] for row in (self.heads, *self.rows))

    def markdown(self) -> str:
        """Return the table in Markdown, a line for each row."""
        rules = ["---" if index in self.words else "---:" for index in range(len(self.heads))]
        return "".join(f"| {' | '.join(map(_escaped, cells))} |\n" for cells in (self.heads, rules, *self.rows))


def _escaped(cell: str) -> str:
    return cell.replace("|", r"\|")
