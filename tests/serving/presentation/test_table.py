"""Tables and CSV: every text arrives as it is, whatever is in it."""

import csv
import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from serving.presentation.csv_rows import csv_text
from serving.presentation.table import Table

CELLS = st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"])), min_size=2, max_size=2)


def shown(table: Table, width: int = 100) -> list[str]:
    console = Console(width=width, file=io.StringIO())
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_figures_stand_to_the_right_and_words_to_the_left() -> None:
    assert shown(Table(["a model", "ms"], [["x", "1.25"], ["longer than it", "113"]])) == [
        "a model           ms",
        "x               1.25",
        "longer than it   113",
    ]


def test_a_gap_follows_the_rows_that_are_named() -> None:
    assert shown(Table(["", ""], [["a", "1"], ["b", "2"]], gaps=[0]))[1:] == ["a  1", "", "b  2"]


def test_what_looks_like_markup_is_shown_as_it_is() -> None:
    assert shown(Table(["[bold]"], [["[/red] [link=x]"]], "[i]")) == ["[i]", "[bold]", "[/red] [link=x]"]


@given(st.lists(CELLS))
def test_in_markdown_each_row_has_its_cells(rows: list[list[str]]) -> None:
    head, rule, *lines = Table(["a", "b"], rows).markdown().split("\n")[:-1]
    assert (head, rule) == ("| a | b |", "| --- | ---: |")
    assert [len(re.findall(r"(?<!\\)\|", line)) for line in lines] == [3] * len(rows)


@pytest.mark.parametrize(("columns", "expected"), [((), "a,b\n1,\n,2\n"), (["b"], "b,a\n,1\n2,\n")])
def test_csv_has_all_columns_of_all_rows(columns: list[str], expected: str) -> None:
    assert csv_text([{"a": 1}, {"b": 2}], columns) == expected
    assert csv_text([], ["id"]) == "id\n"


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0\r"))))
def test_csv_comes_back_as_it_was(texts: list[str]) -> None:
    rows = csv.DictReader(io.StringIO(csv_text([{"x": text, "y": 1} for text in texts]), newline=""))
    assert [row["x"] for row in rows] == texts
