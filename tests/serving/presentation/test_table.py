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


WIDE = Table(["place", "", *(f"figure {n}" for n in range(7)), "why"], [
    [name, "in words", *(f"{n}{name}.25" for n in range(7)), "because of this and of that, and of much else beside"]
    for name in ("one", "other")
], words=(0, 1, 9))  # fmt: skip


def test_a_table_that_is_wider_than_the_terminal_is_shown_in_parts_with_its_first_words() -> None:
    assert shown(WIDE, 54) == [
        "place             figure 0   figure 1   figure 2",
        "one    in words    0one.25    1one.25    2one.25",
        "other  in words  0other.25  1other.25  2other.25",
        "",
        "place             figure 3   figure 4   figure 5",
        "one    in words    3one.25    4one.25    5one.25",
        "other  in words  3other.25  4other.25  5other.25",
        "",
        "place             figure 6  why",
        "one    in words    6one.25  because of this and of",
        "                            that, and of much else",
        "                            beside",
        "other  in words  6other.25  because of this and of",
        "                            that, and of much else",
        "                            beside",
    ]


@given(st.integers(48, 200))
def test_no_figure_is_cut_at_any_width(width: int) -> None:
    text = "\n".join(shown(WIDE, width))
    assert max(map(len, text.splitlines())) <= width and "…" not in text
    for row in WIDE.rows:
        assert all(word in text for cell in row for word in cell.split())


def test_keys_may_be_figures_and_are_in_each_part() -> None:
    keyed = Table(["size", "name", "a", "b"], [["4", "mixtral", "1" * 9, "2" * 9]], "of it", words=(1,), keys=2)
    assert shown(keyed, 24) == [
        "of it",
        *("size  name             a", "   4  mixtral  111111111"),
        "",
        *("size  name             b", "   4  mixtral  222222222"),
    ]


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


def test_a_table_of_words_wraps_them() -> None:
    table = Table(["name", "models"], [["one two", "alpha, beta"]], words=range(2))
    assert shown(table, 12) == ["name  models", "one   alpha,", "two   beta"]
