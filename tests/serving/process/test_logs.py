"""Log lines: can a person read them, and a program?"""

import io
import json
import logging
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from serving.call import Call
from serving.edge.refusals import Overflow
from serving.process.logs import REFUSED, REFUSING, JsonFormatter, TextLines, fields, start_logging
from serving.refusals import Reason, Refusal
from serving.telemetry.tracing.otlp import LogThrottle
from serving.telemetry.tracing.request_log import log_request
from serving.types import Request
from tests.serving.telemetry.tracing.emulate import ROUTE, Edge

LOG = logging.getLogger("foreserve.test")


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What is logged below `foreserve`, as lines of JSON."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger("foreserve")
    before, logger.level = logger.level, logging.INFO
    logger.addHandler(handler)
    yield stream
    logger.removeHandler(handler)
    logger.setLevel(before)


@pytest.fixture
def as_before() -> Iterator[None]:
    """Leave the logs as they were."""
    root = logging.getLogger()
    handlers, level, ours = list(root.handlers), root.level, logging.getLogger("foreserve").level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("foreserve").setLevel(ours)
    for module in REFUSING:
        logging.getLogger(f"vllm.entrypoints.{module}").filters.clear()


def record(**said: object) -> logging.LogRecord:
    extra = {**fields(**said), "not_ours": 1}  # Ray and vLLM give records such things.
    return LOG.makeRecord("foreserve", logging.INFO, "here", 1, "Device %d is %s.", (1, "lost"), None, extra=extra)


def test_a_line_of_json_has_its_fields_beside_what_every_line_has() -> None:
    said = json.loads(JsonFormatter().format(record(device=1, share=0.5, none=None, never=float("inf"), empty="")))
    assert list(said) == ["timestamp", "level", "logger", "message", "device", "share"]
    assert (said["level"], said["logger"], said["message"]) == ("info", "foreserve", "Device 1 is lost.")
    assert said["timestamp"].endswith("Z") and (said["device"], said["share"]) == (1, 0.5)


def test_a_line_of_text_is_a_sentence_with_fields_after_it() -> None:
    line = TextLines().format(record(device=1, why="it was told to", ttft_s=0.123456789))
    assert line.partition(" ")[2] == 'INFO Device 1 is lost. device=1 why="it was told to" ttft_s=0.123457'


@pytest.mark.parametrize("lines_of", [JsonFormatter, TextLines])
def test_a_traceback_is_told(lines_of: type[logging.Formatter]) -> None:
    try:
        raise ValueError("broken")
    except ValueError as error:
        told = LOG.makeRecord("foreserve", logging.ERROR, "here", 1, "It failed.", (), (ValueError, error, None))
    assert "ValueError: broken" in lines_of().format(told)
    assert ("\n" in lines_of().format(told)) == (lines_of is TextLines)


def test_a_request_that_was_served_has_a_line(lines: io.StringIO) -> None:
    edge = Edge()
    edge.submit(Request("a", 0.0, 100, 5, topic="legal", ttft_s=9.0, tpot_s=9.0))
    (call_trace,) = edge.run().told
    call_trace.trace_id = "ab" * 16
    log_request(call_trace)
    said = json.loads(lines.getvalue())
    (sequence,) = call_trace.sequences
    assert said["message"] == "A request was served."
    assert said["request_id"] == "chatcmpl-a" and said["trace_id"] == "ab" * 16
    assert (said["device"], said["topic"], said["slo_met"], said["route"]) == (0, "legal", True, ROUTE)
    assert (said["prompt_tokens"], said["output_tokens"], said["finish_reason"]) == (100, 5, "length")
    assert said["ttft_s"] == pytest.approx(sequence.flight.ttft_s, abs=1e-6)
    assert said["tpot_s"] == pytest.approx(sequence.flight.tpot_s, abs=1e-6)
    assert "error" not in said and "moves" not in said


def test_one_that_was_broken_off_and_one_that_was_turned_away_have_lines(lines: io.StringIO) -> None:
    edge = Edge()
    edge.finish(edge.submit(Request("a", 0.0, 100, 5)), "abort")
    refusal = Overflow(Refusal(Reason.TTFT, "The first token is predicted too late.", 2.0), 1.0)
    edge.call_traces.on_answer(Call(0.0, [(b"x-request-id", b"mine")], route=ROUTE, status="429", refusal=refusal))
    for call_trace in edge.told:
        log_request(call_trace)
    broken, away = map(json.loads, lines.getvalue().splitlines())
    assert (broken["error"], broken["finish_reason"], broken["output_tokens"]) == ("cancelled", "abort", 0)
    assert (away["error"], away["status"], away["request_id"]) == ("ttft", "429", "mine")
    assert "predicted too late" in away["message"]


@pytest.mark.usefixtures("as_before")
def test_levels_hold_for_what_is_ours(capsys: pytest.CaptureFixture[str]) -> None:
    start_logging("text", "warning")
    LOG.info("quiet")
    LOG.warning("loud")
    logging.getLogger("other").info("quiet too")
    said = capsys.readouterr().err
    assert "loud" in said and "quiet" not in said


@pytest.mark.usefixtures("as_before")
def test_a_client_that_names_another_model_fills_no_log_of_the_server() -> None:
    spec = find_spec("vllm")
    assert spec is not None and spec.origin is not None
    entrypoints = Path(spec.origin).parent / "entrypoints"
    complaining = {
        ".".join(file.relative_to(entrypoints).with_suffix("").parts)
        for file in entrypoints.rglob("*.py")
        if REFUSED in file.read_text(encoding="utf-8")
    }
    assert complaining == set(REFUSING)
    start_logging("text", "warning")
    for module in REFUSING:
        logger = logging.getLogger(f"vllm.entrypoints.{module}")
        refused, failed = (
            logger.makeRecord(logger.name, logging.ERROR, "here", 1, f"{what} %s", ("x",), None)
            for what in (REFUSED, "Error in")
        )
        assert logger.filter(failed) and not logger.filter(refused)


def test_a_collector_that_is_down_is_complained_of_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("serving.telemetry.tracing.otlp.time.monotonic", lambda: now[0])
    seldom = LogThrottle()
    assert [seldom.filter(record()) for _ in range(3)] == [True, False, False]
    now[0] += 61.0
    assert seldom.filter(record())
