"""A table of texts, made once and shown in a terminal or in Markdown."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from rich.table import Table as RichTable
from rich.text import Text


@dataclass(frozen=True)
class Table:
    """Headings and rows of texts.

    `words` names the columns that are read from the left; in all others are figures. After a row in `gaps` comes an
    empty one. Where `is_whole`, no word of a text is cut, however little room there is: texts wrap between words.
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    words: Collection[int] = (0,)
    gaps: Collection[int] = ()
    is_whole: bool = False

    def __rich__(self) -> RichTable:
        """Return the table as `rich` prints it; no text is taken for its markup."""
        title = Text(self.title, "bold") if self.title else None
        table = RichTable(box=None, pad_edge=False, title=title, title_justify="left")
        for index, head in enumerate(self.heads):
            in_words = index in self.words
            least = self._longest_word(index) if in_words and self.is_whole else None
            table.add_column(Text(head), justify="left" if in_words else "right", no_wrap=not in_words, min_width=least)
        for index, row in enumerate(self.rows):
            table.add_row(*map(Text, row))
            if index in self.gaps:
                table.add_row()
        return table

    def _longest_word(self, index: int) -> int:
        """Return the length of the longest word in a column."""
        return max(len(word) for row in (self.heads, *self.rows) for word in (row[index].split() or [""]))

    def markdown(self) -> str:
        """Return the table in Markdown, a line for each row."""
        rules = ["---" if index in self.words else "---:" for index in range(len(self.heads))]
        return "".join(f"| {' | '.join(map(_escaped, cells))} |\n" for cells in (self.heads, rules, *self.rows))


def _escaped(cell: str) -> str:
    return cell.replace("|", r"\|")
