"""When a disk is full, or nobody reads along any more, does the log end, and nothing else?"""

import contextlib
import logging
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from serving.cli.announcements import written
from serving.process.logs import Stderr
from serving.telemetry.flight_log import FlightLog
from serving.telemetry.log_file import LogFile
from serving.telemetry.step_log import StepLog, read_step_log
from serving.telemetry.step_table import GROUP
from serving.usage_error import UsageError
from tests.serving.telemetry.test_step_log import RECORD

FULL = Path("/dev/full")
LIMIT = 20_000


def limited(code: str) -> subprocess.CompletedProcess[str]:
    """What comes of a program whose files can't grow beyond `LIMIT` bytes."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))

    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, preexec_fn=limit, timeout=60)


PROGRAM = """
from pathlib import Path
from serving.telemetry.step_log import StepLog
from tests.serving.telemetry.test_step_log import RECORD
with StepLog(Path({path!r})) as log:
    for _ in range({count}):
        log.on_step(RECORD)
print("done")
"""


def test_a_log_that_has_no_more_room_ends_with_one_sentence_and_a_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    done = limited(PROGRAM.format(path=str(path), count=500))
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert done.stderr.count("the log ends here") == 1 and len(done.stderr.splitlines()) == 1, done.stderr
    assert f"--step-log {path}" in done.stderr
    assert LIMIT - 600 < path.stat().st_size <= LIMIT and path.read_bytes().endswith(b"\n")
    assert set(map(repr, read_step_log(path))) == {repr(RECORD)}


def test_so_does_a_table(tmp_path: Path) -> None:
    path = tmp_path / "steps.parquet"
    program = PROGRAM.replace(
        "log.on_step(RECORD)", "log.on_step(msgspec.structs.replace(RECORD, start_s=random.random()))"
    )
    done = limited("import msgspec, random" + program.format(path=str(path), count=20 * GROUP))
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert done.stderr.count("the log ends here") == 1 and "Traceback" not in done.stderr, done.stderr


@pytest.mark.parametrize("kind", [StepLog, FlightLog])
def test_a_disk_that_is_full_from_the_start_is_no_reason_to_end(
    kind: type[StepLog], caplog: pytest.LogCaptureFixture
) -> None:
    with kind(FULL) as log:
        for _ in range(3):
            (log.on_step(RECORD) if isinstance(log, StepLog) else log._file.write(b"line\n"))
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "No space left on device" in caplog.text


def test_a_reader_who_goes_away_ends_it_too(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    log = LogFile(pipe, "--step-log")
    log.write(b"one\n")
    assert os.read(reader, 100) == b"one\n"
    os.close(reader)
    log.write(b"two\n")
    log.write(b"three\n")
    log.close()
    assert caplog.text.count("the log ends here") == 1


def test_a_reader_is_not_waited_for(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match=r"--step-log .* cannot be written: nobody reads the pipe"):
        LogFile(pipe, "--step-log")
    os.mkfifo(tmp_path / "pipe.parquet")
    with pytest.raises(UsageError, match="is a pipe"), StepLog(tmp_path / "pipe.parquet"):
        pass
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    log = LogFile(pipe, "--step-log")
    for _ in range(100):
        log.write(b"x" * 4096)
    assert caplog.text.count("its reader is too slow") == 1
    assert len(os.read(reader, 1 << 20)) == 1 << 16
    os.close(reader)


def test_a_log_that_cannot_be_had_is_refused(tmp_path: Path) -> None:
    for name in ("steps.jsonl", "steps.parquet"):
        with pytest.raises(UsageError, match=r"--step-log .* cannot be written"), StepLog(tmp_path / "no" / name):
            pass


def test_lines_on_stderr_that_cannot_be_written_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "err"
    record = logging.LogRecord("foreserve", logging.INFO, "", 1, "It is so.", (), None)
    full = FULL.open("w")
    with path.open("w+") as good:
        handler = Stderr(full)
        handler.emit(record)
        handler.emit(record)
        handler.stream = good
        handler.emit(record)
        assert path.read_text() == "2 lines before this one could not be written.\nIt is so.\n"
    with contextlib.suppress(OSError):
        full.close()


def test_nobody_on_stdout_or_stderr_ends_nothing() -> None:
    code = (
        "import logging, sys\nfrom serving.process.logs import start_logging\n"
        "from serving.cli.announcements import tell\n"
        "start_logging('json', 'info')\n"
        "for _ in range(3): logging.getLogger('foreserve').error('no'); tell('no')\n"
        "open(sys.argv[1], 'w').write('done')"
    )
    reader, writer = os.pipe()
    os.close(reader)
    out = Path("/tmp") / f"foreserve-test-{os.getpid()}"
    try:
        done = subprocess.run([sys.executable, "-c", code, str(out)], stdout=writer, stderr=writer, timeout=60)
        assert done.returncode in (0, 120) and out.read_text() == "done"
    finally:
        os.close(writer)
        out.unlink(missing_ok=True)


def test_a_file_for_others_that_has_no_room_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with written(tmp_path / "discovery.json", "text", "--discovery-file"):
        assert not list(tmp_path.iterdir())
    assert "--discovery-file" in caplog.text and "without it" in caplog.text
    with written(FULL, "text", "--ready-file"):
        assert "--ready-file /dev/full is not written: No space left" in caplog.text
    assert FULL.is_char_device()


def test_a_pipe_for_others_that_nobody_reads_is_not_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with written(pipe, "text", "--ready-file"):
        assert f"--ready-file {pipe} is not written: nobody reads the pipe. The server is up" in caplog.text
    caplog.clear()
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with written(pipe, "text", "--ready-file"):
        assert os.read(reader, 100) == b"text"
    os.close(reader)
    assert pipe.is_fifo() and not caplog.records


def test_a_file_for_others_is_there_whole_and_then_gone(tmp_path: Path) -> None:
    path = tmp_path / "ready.json"
    with written(path, "text", "--ready-file"):
        assert path.read_text() == "text" and [each.name for each in tmp_path.iterdir()] == ["ready.json"]
    assert not path.exists()
    (tmp_path / "link").symlink_to(path)
    with written(tmp_path / "link", "text", "--ready-file"):
        assert path.read_text() == "text"
    assert (tmp_path / "link").is_symlink() and not path.exists()
