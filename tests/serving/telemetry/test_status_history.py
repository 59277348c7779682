"""Does a page that is opened late see what was, and does that stay small?"""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serving.telemetry.history_series import series_of
from serving.telemetry.status import Status
from serving.telemetry.status_history import EVERY_S, KEPT, HistoryKeeper, HistoryReader, StatusHistory, point_of
from serving.telemetry.watch import LOOK_S, Watch
from tests.serving.cli.test_top import busy_status
from tests.serving.telemetry.metrics.samples import measured


def status(at_s: float, tokens: int) -> Status:
    before = busy_status()
    first = msgspec.structs.replace(before.devices[0], tokens=tokens, step_energy_j=tokens * 0.05, energy_j=at_s * 4)
    return msgspec.structs.replace(before, emulated_s=at_s, devices=[first, before.devices[1]])


def told(keeper: HistoryKeeper, seen: int = 0) -> StatusHistory:
    """As a client gets it."""
    return msgspec.json.decode(msgspec.json.encode(keeper.after(seen)), type=StatusHistory)


@pytest.mark.slow
def test_an_hour_is_kept_and_no_more() -> None:
    keeper = HistoryKeeper()
    for place in range(KEPT + 30):
        keeper.add(status(place * EVERY_S, place * 10))
    found = told(keeper)
    assert (found.first, len(found.points), found.every_s) == (30, KEPT, EVERY_S)
    assert len(msgspec.json.encode(found)) < 300 * KEPT
    assert told(keeper, KEPT + 28).points == found.points[-2:]
    assert told(keeper, KEPT + 30).points == [] and told(keeper, 10 * KEPT).points == []


@pytest.mark.slow
@settings(max_examples=20)
@given(st.lists(st.integers(0, 40), max_size=12))
def test_a_reader_has_what_the_server_has_however_often_it_asks(added: list[int]) -> None:
    keeper, reader, count = HistoryKeeper(), HistoryReader(), 0
    for more in added:
        for _ in range(more):
            keeper.add(status(count * EVERY_S, count))
            count += 1
        reader.add(told(keeper, reader.seen))
        assert list(reader.points) == told(keeper).points


def test_a_server_that_began_anew_begins_the_history_anew() -> None:
    keeper, again, reader = HistoryKeeper(), HistoryKeeper(), HistoryReader()
    for place in range(5):
        keeper.add(status(place * EVERY_S, place))
    reader.add(told(keeper))
    again.add(status(0.0, 7))
    for _ in range(2):
        reader.add(told(again, reader.seen))
    assert list(reader.points) == told(again).points


def test_series_are_what_went_on_between_two_points() -> None:
    points = [point_of(status(at_s, tokens)) for at_s, tokens in ((10.0, 100), (15.0, 600), (20.0, 600))]
    found = series_of(points)
    assert found.tokens_per_s == [100.0, 0.0]
    assert found.j_per_token == [pytest.approx(0.05), None]
    assert found.power_w == [pytest.approx(4.0), pytest.approx(4.0)]
    assert found.running == [2.0, 2.0] and found.waiting == [2.0, 2.0]
    assert series_of(points[:1]).tokens_per_s == [] and series_of([]).late_p99_s == []


def test_points_are_as_far_apart_as_they_say() -> None:
    metrics, _ = measured()
    watch, now_s = Watch(metrics, print), 50.0
    for _ in range(61):
        watch.look(now_s)
        now_s += LOOK_S
    assert len(watch.history.after().points) == 60 / EVERY_S + 1
    watch.look(now_s + 1000)  # This process was stopped: no points are made up for that time.
    assert len(watch.history.after().points) == 60 / EVERY_S + 2
