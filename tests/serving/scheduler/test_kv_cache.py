"""Are blocks neither lost nor given twice, and shared by those who begin alike?"""

from hypothesis import given
from hypothesis import strategies as st

from serving.scheduler.kv_cache import HeldBlocks, KvCache

SIZE = 4


def begin(cache: KvCache, hashes: list[int], tokens: int) -> HeldBlocks:
    """A sequence of so many tokens, computed to its end."""
    held = cache.share(hashes[: cache.known(hashes)])
    cache.grow(held, tokens)
    cache.publish(held, hashes, tokens)
    return held


def test_a_sequence_takes_whole_blocks_and_gives_them_back() -> None:
    cache = KvCache(capacity_tokens=43, block_tokens=SIZE)
    assert cache.free == 10
    held = cache.share([])
    cache.grow(held, 9)
    assert (cache.used, held.blocks) == (3, 3)
    cache.grow(held, 12)
    assert cache.used == 3
    cache.release(held)
    assert cache.free == 10


def test_who_begins_alike_shares_what_is_alike_and_no_more() -> None:
    cache = KvCache(400, SIZE)
    begin(cache, [1, 2, 3], 13)
    assert cache.used == 4
    assert cache.known([1, 2, 9]) == 2
    begin(cache, [1, 2, 9], 13)
    assert cache.used == 4 + 2


def test_blocks_are_not_known_before_they_are_computed() -> None:
    cache = KvCache(400, SIZE)
    held = cache.share([])
    cache.grow(held, 12)
    assert cache.known([1, 2, 3]) == 0
    cache.publish(held, [1, 2, 3], 7)
    assert cache.known([1, 2, 3]) == 1


def test_two_who_computed_the_same_at_once_keep_one_copy() -> None:
    cache = KvCache(400, SIZE)
    first, second = cache.share([]), cache.share([])
    for held in (first, second):
        cache.grow(held, 8)
    for held in (first, second):
        cache.publish(held, [1, 2], 8)
    assert cache.used == 2


def test_what_nobody_uses_stays_until_its_room_is_wanted_and_a_prompts_end_goes_first() -> None:
    cache = KvCache(4 * SIZE, SIZE)
    cache.release(begin(cache, [1, 2, 3], 12))
    assert (cache.used, cache.known([1, 2, 3])) == (0, 3)
    cache.grow(cache.share([]), 2 * SIZE)
    assert cache.known([1, 2, 3]) == 2
    assert cache.needed(3 * SIZE, [1, 2]) == 3  # to use idle blocks takes them from what is free


def test_with_less_capacity_than_is_used_nothing_is_free() -> None:
    cache = KvCache(400, SIZE)
    held = begin(cache, [1], 40)
    cache.resize(20)
    assert cache.free == -5
    cache.release(held)
    assert cache.free == 5 and cache.known([1]) == 1


@given(st.lists(st.tuples(st.lists(st.integers(0, 3), max_size=4), st.integers(0, 6), st.booleans()), max_size=40))
def test_blocks_in_use_are_those_that_sequences_hold_each_shared_one_once(
    steps: list[tuple[list[int], int, bool]],
) -> None:
    cache = KvCache(30 * SIZE, SIZE)
    alive: list[HeldBlocks] = []
    for path, more, ends in steps:
        # A block's hash stands for all before it.
        hashes = [hash(tuple(path[: i + 1])) for i in range(len(path))]
        tokens = len(hashes) * SIZE + more
        if tokens and cache.needed(tokens, hashes[: cache.known(hashes)]) <= cache.free:
            alive.append(begin(cache, hashes, tokens))
        if ends and alive:
            cache.release(alive.pop(0))
        shared = {each for held in alive for each in held.shared}
        assert cache.used == len(shared) + sum(held.own for held in alive)
        assert 0 <= cache.used <= cache.capacity


def test_blocks_without_a_name_are_nobodys_until_they_have_one() -> None:
    cache = KvCache(400, SIZE)
    held = begin(cache, [1, 2], 20)
    names = cache.share_unnamed(held, 4)
    cache.release(held)
    assert (len(names), cache.used, cache.known([1, 2, 3, 4, 5])) == (2, 0, 2)
    assert cache.rename(names, [1, 2, 3, 4], 2) == [2, 3]
    assert cache.known([1, 2, 3, 4, 5]) == 4


def test_of_a_prompt_and_its_answer_the_end_goes_first() -> None:
    cache = KvCache(6 * SIZE, SIZE)
    held = begin(cache, [1, 2], 16)
    names = cache.share_unnamed(held, 4)
    cache.release(held)
    cache.rename(names, [1, 2, 3, 4], 2)
    cache.grow(cache.share([]), 3 * SIZE)
    assert cache.known([1, 2, 3, 4]) == 3


def test_an_answer_that_the_cache_has_already_is_kept_once() -> None:
    cache = KvCache(400, SIZE)
    first, second = begin(cache, [1], 12), begin(cache, [1], 12)
    names = [cache.share_unnamed(held, 3) for held in (first, second)]
    for held in (first, second):
        cache.release(held)
    assert [cache.rename(each, [1, 2, 3], 1) for each in names] == [[1, 2], []]
    cache.grow(cache.share([]), 97 * SIZE)
    assert (cache.free, cache.known([1, 2, 3])) == (3, 3)


def test_a_cache_that_shrinks_knows_no_more_than_it_has_room_for() -> None:
    cache, evicted = KvCache(400, SIZE), list[int]()
    for first in (1, 4):
        cache.release(begin(cache, [first, first + 1, first + 2], 12))
    cache.on_evict = evicted.append
    cache.resize(4 * SIZE)
    assert (evicted, cache.known([1, 2, 3]), cache.known([4, 5, 6])) == ([3, 2], 1, 3)
