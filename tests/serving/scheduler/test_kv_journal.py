"""Does what a prefix cache tells of itself add up to what it has?"""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from serving.scheduler.config import Limits, SchedulerRules
from serving.scheduler.kv_cache import KvCache
from serving.scheduler.kv_journal import KvJournal
from serving.scheduler.prefix_hash import block_hashes
from serving.scheduler.scheduler import Scheduler
from serving.types import Batch, Done, KvEvent, Request

SIZE = 4
FOLLOWED = SchedulerRules(kv_events=True)


def request(id: str, prompt: list[int], max_tokens: int = 3) -> Request:
    tokens = np.array(prompt, dtype="<u4").tobytes()
    return Request(id, 0.0, len(prompt), max_tokens, blocks=block_hashes(prompt, SIZE), prompt=tokens)


class Follower:
    """The blocks of which events tell, each with all tokens up to its end."""

    def __init__(self) -> None:
        self.blocks: dict[int, bytes] = {}

    def hear(self, events: list[KvEvent]) -> None:
        for event in events:
            for gone in event.removed:
                del self.blocks[gone]
            if not event.removed and not event.stored:
                self.blocks.clear()
            before = self.blocks[event.parent] if event.parent is not None else b""
            for place, each in enumerate(event.stored):
                assert each not in self.blocks
                before += event.tokens[place * SIZE * 4 : (place + 1) * SIZE * 4]
                self.blocks[each] = before


def step(scheduler: Scheduler, follower: Follower, at_s: float, done: Done) -> Batch:
    batch = scheduler.plan(at_s, at_s, at_s - 1.0, done)
    follower.hear(batch.kv_events)
    return batch


alike = st.lists(st.integers(0, 1), min_size=1, max_size=40)


@given(prompts=st.lists(alike, min_size=1, max_size=12), room=st.integers(12, 30), chunk=st.sampled_from([0, 5]))
def test_whoever_follows_has_the_blocks_that_the_cache_has_with_their_tokens(
    prompts: list[list[int]], room: int, chunk: int
) -> None:
    limits = Limits(3, 64, room * SIZE, SIZE)
    scheduler, follower = Scheduler(limits, SchedulerRules(kv_events=True, prefill_chunk=chunk)), Follower()
    there = {str(index): request(str(index), prompt) for index, prompt in enumerate(prompts)}
    for each in there.values():
        scheduler.submit(each, in_time=True)
    done, at_s = Done(), 0.0
    while step(scheduler, follower, at_s, done).ids:
        done, at_s = Done(1), at_s + 1.0
    known = {
        each: one.prompt[: (place + 1) * SIZE * 4] for one in there.values() for place, each in enumerate(one.blocks)
    }
    assert follower.blocks == {each: known[each] for each in scheduler.kv._users}
    assert scheduler.flush()
    follower.hear(scheduler.plan(at_s, at_s, at_s, Done()).kv_events)
    assert follower.blocks == {}


def test_a_prompt_with_one_token_of_answer_is_kept_for_others() -> None:
    scheduler, follower = Scheduler(Limits(2, 64, 400, SIZE), FOLLOWED), Follower()
    scheduler.submit(request("a", [1] * 9, max_tokens=1), in_time=True)
    step(scheduler, follower, 0.0, Done())
    step(scheduler, follower, 1.0, Done(1, [], ["a"]))
    assert len(follower.blocks) == 2
    scheduler.submit(request("b", [1] * 9), in_time=True)
    assert step(scheduler, follower, 2.0, Done()).cached_tokens == 8


def test_no_cache_is_emptied_under_a_sequence() -> None:
    scheduler = Scheduler(Limits(2, 64, 400, SIZE), FOLLOWED)
    scheduler.submit(request("a", [1] * 9), in_time=True)
    scheduler.plan(0.0, 0.0, -1.0, Done())
    assert not scheduler.flush()
    scheduler.abort("a")
    assert scheduler.flush()


def test_who_comes_anew_forgets_first() -> None:
    assert Scheduler(Limits(2, 64, 400, SIZE), FOLLOWED).plan(0.0, 0.0, -1.0, Done()).kv_events == [KvEvent()]


def test_nobody_is_told_unless_asked() -> None:
    scheduler = Scheduler(Limits(2, 64, 400, SIZE))
    scheduler.submit(request("a", [1] * 9), in_time=True)
    batches = [scheduler.plan(0.0, 0.0, -1.0, Done()), scheduler.plan(1.0, 1.0, 0.0, Done(1))]
    assert [batch.kv_events for batch in batches] == [[], []]


def test_blocks_between_which_others_are_known_are_told_apart() -> None:
    journal, cache = KvJournal(True, SIZE), KvCache(400, SIZE)
    one = request("a", list(range(16)))
    first, second = cache.share([]), cache.share([])
    for held in (first, second):
        cache.grow(held, 16)
    # The second block is there before the others, as it may be when two compute the same at once.
    first.shared, first.own = [one.blocks[0]], 3
    cache.publish(first, one.blocks, 8)
    journal.store(one, cache.publish(second, one.blocks, 16))
    _, *events = journal.take()
    assert [(event.stored, event.parent) for event in events] == [
        ([one.blocks[0]], None),
        (one.blocks[2:], one.blocks[1]),
    ]
