"""Consoles for tables: never narrower than a table needs, and as wide as can be where there is no window."""

import pytest

from serving.presentation.wide_console import TABLES, UNCUT, wide_console


@pytest.mark.parametrize(
    ("columns", "is_terminal", "width"), [(80, True, TABLES), (230, True, 230), (80, False, UNCUT)]
)
def test_its_width(monkeypatch: pytest.MonkeyPatch, columns: int, is_terminal: bool, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    if is_terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
    assert wide_console().width == width
