"""Is what a header can carry told apart from what it can't?"""

import pytest

from serving.security.header_text import fits_header


@pytest.mark.parametrize("text", ["", "sk-1", "a word, and more: ~"])
def test_printable_ascii_fits(text: str) -> None:
    assert fits_header(text)


@pytest.mark.parametrize("text", ["schlüssel", "a\tb", "a\n", "\x7f", "\x00", "\ud800"])
def test_all_else_does_not(text: str) -> None:
    assert not fits_header(text)
