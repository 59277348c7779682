"""Do processes that share a machine get cores of their own, as far as there are enough?"""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from serving.process.cores import share_of


@given(count=st.integers(2, 16), cores=st.integers(1, 64))
def test_shares_are_disjoint_and_together_the_upper_half(count: int, cores: int) -> None:
    all_of_them, upper = list(range(cores)), list(range(cores // 2, cores))
    shares = [share_of(index, count, all_of_them) for index in range(count)]
    if len(upper) < count:
        assert shares == [all_of_them] * count
        return
    assert not any(set(a) & set(b) for a, b in combinations(shares, 2))
    assert sorted(core for share in shares for core in share) == upper
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_one_alone_has_all_cores() -> None:
    assert share_of(0, 1, range(8)) == list(range(8))
