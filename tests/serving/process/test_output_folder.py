"""A folder that can't be written to is told of before anything is made for it."""

import os
from pathlib import Path

import pytest

from serving.process.output_folder import make_folder, make_place
from serving.usage_error import UsageError


def test_a_folder_that_is_there_must_be_writable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_folder("--out", tmp_path / "a" / "b")
    make_folder("--out", tmp_path / "a")
    # Whoever runs this as root may write anywhere.
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(UsageError, match=r"--out is .*a; allowed is a folder that can be written to: Permission"):
        make_folder("--out", tmp_path / "a")


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    with pytest.raises(UsageError, match=r"--out is .*a; allowed is a folder"):
        make_folder("--out", tmp_path / "a")


def test_a_file_to_be_written_is_no_folder(tmp_path: Path) -> None:
    make_place("--out", tmp_path / "new" / "x.npz")
    assert (tmp_path / "new").is_dir()
    with pytest.raises(UsageError, match=f"^--out is {tmp_path}, which is a folder; allowed is a file, as {tmp_path}/"):
        make_place("--out", tmp_path)
