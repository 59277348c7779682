"""A folder that can't be written to is told of before anything is made for it."""

import errno
import os
from pathlib import Path

import pytest

from serving.process.output_folder import make_folder, make_place, whole_file
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


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_file_whose_writing_is_broken_off_is_as_before(tmp_path: Path, error: BaseException) -> None:
    file = tmp_path / "a.npz"
    file.write_bytes(b"before")
    expected = UsageError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(expected) as raised, whole_file(file) as writing:
        writing.write(b"half")
        raise error
    assert expected is KeyboardInterrupt or str(raised.value) == f"{file} cannot be written: {error.strerror}."
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == {file: b"before"}


def test_a_file_is_written_through_a_link_and_a_device_stays_one(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for path in (tmp_path / "link", Path(os.devnull)):
        with whole_file(path) as writing:
            writing.write(b"all")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "file").read_bytes() == b"all"
    assert Path(os.devnull).is_char_device()


def test_a_pipe_is_written_to_by_its_number_and_not_replaced() -> None:
    reader, writer = os.pipe()
    with whole_file(Path(f"/proc/self/fd/{writer}")) as writing:
        writing.write(b"told")
    assert os.read(reader, 10) == b"told"
    os.close(reader)
    os.close(writer)
