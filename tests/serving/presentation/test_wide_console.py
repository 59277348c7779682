"""Consoles for tables: as wide as the terminal, where there is one, and as wide as can be where there is no window."""

import pytest

from serving.presentation.wide_console import LEAST, UNCUT, wide_console


@pytest.mark.parametrize(
    ("columns", "is_terminal", "width"), [(30, True, LEAST), (80, True, 80), (230, True, 230), (80, False, UNCUT)]
)
def test_its_width(monkeypatch: pytest.MonkeyPatch, columns: int, is_terminal: bool, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    if is_terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
    assert wide_console().width == width
