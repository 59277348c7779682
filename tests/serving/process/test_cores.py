"""Are a machine's cores shared out, each to at most one of those that need one?"""

from hypothesis import given
from hypothesis import strategies as st

from serving.process.cores import share_of


@given(st.integers(2, 8), st.sets(st.integers(0, 200), min_size=16, max_size=80))
def test_shares_are_apart_and_leave_half_to_others(count: int, cores: set[int]) -> None:
    shares = [share_of(index, count, sorted(cores)) for index in range(count)]
    together = [core for share in shares for core in share]
    assert len(together) == len(set(together)) <= (len(cores) + 1) // 2
    assert max(map(len, shares)) - min(map(len, shares)) <= 1 and all(shares)


@given(st.integers(0, 8), st.integers(1, 8), st.integers(1, 8))
def test_who_is_alone_or_has_too_few_uses_all(index: int, count: int, cores: int) -> None:
    share = share_of(index, count, range(cores))
    if count == 1 or (cores + 1) // 2 < count:
        assert share == list(range(cores))
