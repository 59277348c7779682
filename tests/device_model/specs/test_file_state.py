"""Does the state of a file change with the file, and with no other?"""

import os

from device_model.specs.file_state import FileState


def test_a_file_that_is_written_to_has_another_state(tmp_path):
    path = tmp_path / "a"
    path.write_text("a")
    before = FileState.of(path)
    assert FileState.of(str(path)) == before is not None
    path.write_text("ab")
    assert FileState.of(path) != before


def test_one_that_is_replaced_by_another_of_its_size_and_age_has_another_state(tmp_path):
    one, other = tmp_path / "a", tmp_path / "b"
    for path in (one, other):
        path.write_text("a")
        os.utime(path, ns=(1, 1))
    before = FileState.of(one)
    other.replace(one)
    assert FileState.of(one) != before


def test_of_none_there_is_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert FileState.of(tmp_path / "none") is None and FileState.of("") is None
