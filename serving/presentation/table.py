"""A table of texts, made once and shown in a terminal or in Markdown."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from rich.table import Table as RichTable
from rich.text import Text


@dataclass(frozen=True)
class Table:
    """Headings and rows of texts.

    `words` names the columns that are read from the left; in all others are figures. After a row in `gaps` comes an
    empty one.
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    words: Collection[int] = (0,)
    gaps: Collection[int] = ()

    def __rich__(self) -> RichTable:
        """Return the table as `rich` prints it; no text is taken for its markup."""
        title = Text(self.title, "bold") if self.title else None
        table = RichTable(box=None, pad_edge=False, title=title, title_justify="left")
        for index, head in enumerate(self.heads):
            in_words = index in self.words
            table.add_column(Text(head), justify="left" if in_words else "right", no_wrap=not in_words)
        for index, row in enumerate(self.rows):
            table.add_row(*map(Text, row))
            if index in self.gaps:
                table.add_row()
        return table

    def markdown(self) -> str:
        """Return the table in Markdown, a line for each row."""
        rules = ["---" if index in self.words else "---:" for index in range(len(self.heads))]
        return "".join(f"| {' | '.join(map(_escaped, cells))} |\n" for cells in (self.heads, rules, *self.rows))


def _escaped(cell: str) -> str:
    return cell.replace("|", r"\|")
