"""The router and the LPDDR tier."""

from hypothesis import given
from hypothesis import strategies as st

from serving.lpddr import Lpddr
from serving.router import LeastLoaded


@given(st.integers(1, 8), st.lists(st.booleans(), max_size=60))
def test_loads_never_differ_by_more_than_what_has_ended(devices: int, ends: list[bool]) -> None:
    router = LeastLoaded(devices)
    flying: list[int] = []
    for end in ends:
        if end and flying:
            router.done([flying.pop(0)])
        else:
            flying.append(router.choose())
    counts = [flying.count(device) for device in range(devices)]
    assert [router.idle(device) for device in range(devices)] == [count == 0 for count in counts]
    least = min(counts)
    assert counts[router.choose()] == least


def test_devices_that_share_a_tier_share_its_bandwidth() -> None:
    tier = Lpddr(100.0)
    assert tier.lease(0, 0.0) == 100.0
    assert tier.lease(1, 5.0) == 50.0
    assert tier.lease(0, 7.0) == 50.0
    assert tier.traffic_bytes == {0: 7.0, 1: 5.0}
