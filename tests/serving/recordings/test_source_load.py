"""Is a stream sent elsewhere when, and only when, the token source would be behind with it?"""

from hypothesis import given
from hypothesis import strategies as st

from serving.recordings.source_load import BEHIND_S, SourceLoad


def load(rate: float = 50.0, step_s: float = 0.004, each_s: float = 0.0003) -> SourceLoad:
    found = SourceLoad(lambda device, streams: rate, lambda: (0.0, rate), lambda: range(4), lambda: 1)
    found.learn(step_s, each_s)
    return found


def taken(load: SourceLoad, devices: int, offered: int) -> int:
    count = 0
    for number in range(offered):
        if not load.behind(1.0, 1000):
            load.begin(number % devices)
            count += 1
    return count


def test_an_idle_source_takes_a_stream() -> None:
    assert not load().behind(0.0, 1000)


def test_it_takes_as_many_as_it_has_time_for() -> None:
    # 50 steps/s of 4 ms are a fifth of its time; each stream takes 1.5 % more, up to 60 %.
    assert taken(load(), 4, 256) == 26
    assert taken(load(each_s=0.0), 4, 256) == 256
    assert taken(load(step_s=0.02), 4, 256) == 0


def test_streams_that_come_together_are_counted_together() -> None:
    assert not load().behind(0.0, 1000, 26) and load().behind(0.0, 1000, 27)
    busy = load()
    busy.begin(0)
    assert not busy.behind(0.0, 1000, 25) and busy.behind(0.0, 1000, 26)


def test_those_that_are_coming_count_as_if_they_had_begun() -> None:
    waited_for = load()
    waited_for.coming = 25
    assert not waited_for.behind(0.0, 1000, 1) and waited_for.behind(0.0, 1000, 2)
    waited_for.coming = 0
    assert not waited_for.behind(0.0, 1000, 26)


def test_a_token_that_came_late_keeps_others_out_for_a_while() -> None:
    late = load()
    late.begin(0)
    late.underrun(10.0)
    assert late.behind(10.0, 1) and late.behind(10.0 + BEHIND_S / 2, 1)
    assert not late.behind(10.0 + BEHIND_S, 1)
    # But not where all that was late is over.
    late.end(0)
    assert not late.behind(10.0, 1)


def test_a_new_stream_comes_to_a_device_that_is_there() -> None:
    there = [0, 1]
    # The second device wants tokens so fast that no source has time for it.
    rates = {0: 50.0, 1: 500.0}
    found = SourceLoad(lambda device, streams: rates[device], lambda: (0.0, 50.0), lambda: there, lambda: 1)
    found.begin(1)
    found.end(1)
    found.begin(0)
    assert found.behind(0.0, 1000)
    there.remove(1)
    assert not found.behind(0.0, 1000)
    there.clear()
    assert not found.behind(0.0, 1000)


def test_sources_are_counted_that_are_up() -> None:
    up = [2]
    found = SourceLoad(lambda device, streams: 50.0, lambda: (0.0, 50.0), lambda: range(4), lambda: up[0])
    found.learn(0.004, 0.0003)
    assert taken(found, 4, 256) == 53
    up[0] = 3
    assert not found.behind(1.0, 1000)
    up[0] = 0
    assert found.behind(1.0, 1000)
    for number in range(53):
        found.end(number % 4)
    assert found.behind(1.0, 1000)


@given(
    events=st.lists(st.tuples(st.booleans(), st.integers(0, 3)), max_size=60),
    rate=st.floats(1, 500),
    each_s=st.floats(0, 0.01),
)
def test_whoever_has_gone_is_forgotten(events: list[tuple[bool, int]], rate: float, each_s: float) -> None:
    tried, there = load(rate, each_s=each_s), list[int]()
    for begins, device in events:
        if begins:
            tried.begin(device)
            there.append(device)
        elif there:
            tried.end(there.pop())
    for device in there:
        tried.end(device)
    fresh = load(rate, each_s=each_s)
    assert taken(tried, 4, 64) == taken(fresh, 4, 64)
