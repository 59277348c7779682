"""Is each token source told how far a device has got with its own requests, wherever it is called now?"""

import threading
import time
from functools import partial
from pathlib import Path

import pytest

from serving.cluster.sources import progress_reports
from serving.cluster.sources.progress_reports import ProgressReports
from serving.cluster.sources.recorded_source import RECORDED
from serving.cluster.streams import sockets
from serving.cluster.streams.rpc import RpcServer
from serving.device.token_buffer import TokenBuffer
from serving.types import Chunk
from tests import patience

DEVICE, AHEAD = 3, 64


class Source:
    """What a source hears."""

    def __init__(self, folder: Path, name: str) -> None:
        self.heard, self.reminded = dict[str, int](), list[tuple[str, int, int]]()
        server = RpcServer([self.taken, self.remind], folder, name, False)
        self.address = server.address
        threading.Thread(target=server.run, args=[lambda dropped: None], daemon=True).start()

    def taken(self, positions: dict[str, int]) -> None:
        self.heard |= positions

    def remind(self, request_id: str, position: int, device: int) -> None:
        self.reminded.append((request_id, position, device))


until = partial(patience.until, within_s=20)


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sockets, "this_node", lambda: "here")
    return tmp_path_factory.mktemp("r").absolute() / "run"


def pushed(tokens: TokenBuffer, id: str, source: int, count: int, first: int = 0) -> None:
    """A source has sent tokens of a request, and the device has taken them."""
    chunks = [Chunk(id, i, [i]) for i in range(first, first + count)]
    if not first:
        tokens.open(id)
    tokens.push(chunks, source)
    tokens.take({id: count})


def test_each_source_hears_of_its_own_requests(folder: Path) -> None:
    tokens, reports = TokenBuffer(), ProgressReports(DEVICE, AHEAD)
    sources = [Source(folder, f"source-{index}") for index in range(2)]
    reports.begin(tokens, {index: source.address for index, source in enumerate(sources)})
    for source, id in ((0, "a"), (1, "b"), (RECORDED, "c")):
        pushed(tokens, id, source, 5)
    reports.report()
    until(lambda: sources[0].heard == {"a": 5} and sources[1].heard == {"b": 5})


def test_all_of_a_source_s_requests_are_told_once_one_has_news_enough(folder: Path) -> None:
    tokens, reports, source = TokenBuffer(), ProgressReports(DEVICE, AHEAD), Source(folder, "source")
    reports.begin(tokens, {0: source.address})
    pushed(tokens, "a", 0, AHEAD // 16)
    pushed(tokens, "b", 0, AHEAD // 16 - 1)
    reports.report()
    until(lambda: source.heard == {"a": 4, "b": 3})
    source.heard.clear()
    pushed(tokens, "b", 0, AHEAD // 16 - 1, first=3)
    reports.report()
    pushed(tokens, "b", 0, 1, first=6)
    reports.report()
    until(lambda: source.heard == {"b": 7})


def test_one_that_takes_a_place_is_told_all_anew(folder: Path) -> None:
    tokens, reports = TokenBuffer(), ProgressReports(DEVICE, AHEAD)
    first, second = Source(folder, "first"), Source(folder, "second")
    reports.begin(tokens, {0: first.address})
    pushed(tokens, "a", 0, 5)
    reports.report()
    until(lambda: first.heard == {"a": 5})
    reports.follow({0: second.address})
    reports.report()
    until(lambda: second.heard == {"a": 5})


def test_what_is_made_elsewhere_is_reported_there() -> None:
    tokens = TokenBuffer()
    tokens.open("a")
    for source, first in ((0, 0), (1, 1)):
        tokens.push([Chunk("a", first, [7])], source)
    assert tokens.taken() == {1: {"a": 0}}


def test_a_source_is_told_where_a_device_begins_again(folder: Path) -> None:
    reports, source = ProgressReports(DEVICE, AHEAD), Source(folder, "source")
    for count in (20, 9):  # Its clients have had less of the request than it has reported.
        tokens = TokenBuffer()
        reports.begin(tokens, {0: source.address})
        pushed(tokens, "a", 0, count)
        reports.report()
        until(lambda count=count: source.heard == {"a": count})  # type: ignore[misc]


def test_a_source_is_reminded_of_tokens_that_do_not_come(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_reports, "REMIND_S", 0.05)
    tokens, reports = TokenBuffer(), ProgressReports(DEVICE, AHEAD)
    source = Source(folder, "source")
    reports.begin(tokens, {0: source.address})
    pushed(tokens, "served", 0, 3)
    pushed(tokens, "starved", 0, 3)
    tokens.open("new")
    tokens.take({"starved": 2, "new": 1})
    reports.report()
    time.sleep(0.06)
    # One that has had a token meanwhile waits for the next one since then.
    tokens.push([Chunk("starved", 3, [3])])
    reports.report()
    until(lambda: source.reminded == [("new", 0, DEVICE)])
    time.sleep(0.06)
    reports.report()
    until(lambda: sorted(source.reminded) == [("new", 0, DEVICE)] * 2 + [("starved", 4, DEVICE)])
