"""Texts of the machine: prose only, in a fixed order, and only where they are wanted."""

from itertools import islice
from pathlib import Path

import pytest

from serving.lab.corpus import corpus, machine
from serving.lab.corpus.parts import DialogueTurn, Document

MODULE = '''"""Counts the things that come in, and tells whoever asks how many of them there were.

It keeps no history, and so it needs very little memory.

    >>> count([1, 2])
    2
"""

class Counter:
    """A counter that never forgets, and that can be shared between threads without any lock around it."""

    def add(self):
        "Short."
'''
TEXT = Document("cs", (DialogueTurn("text", "A text of the machine."),))


def test_docstrings_lose_their_examples(tmp_path: Path) -> None:
    (tmp_path / "b.py").write_text("def broken(:")
    (tmp_path / "a.py").write_text(MODULE)
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "c.py").write_text(MODULE)
    found = [document.turns[0].content for document in machine._docstrings(tmp_path)]
    assert len(found) == 2
    assert found[0].endswith("memory.")
    assert found[1].startswith("A counter that never forgets")


def test_licences_are_split_into_paragraphs_and_skipped_where_absent(tmp_path: Path) -> None:
    paragraph = "You may copy this text, provided that\nthis notice is kept with each copy of it that you give away."
    (tmp_path / "FREE").write_text(f"{paragraph}\n\n=====\n\n{paragraph}\n")
    found = [document.turns[0].content for document in machine._licences(tmp_path)]
    assert found == [paragraph.replace("\n", " ")] * 2
    assert not list(machine._licences(tmp_path / "absent"))


def test_only_training_has_them_and_only_if_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "texts", lambda: (TEXT,))
    shares = {
        (split, wanted): sum(document is TEXT for document in islice(corpus.documents(0, split, wanted), 1000)) / 1000
        for split in ("train", "held-out")
        for wanted in (True, False)
    }
    assert 0.06 < shares.pop(("train", True)) < 0.14
    assert not any(shares.values())
