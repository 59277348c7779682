"""Does a chat's next turn find the answer before it, whenever the scheduler is told what that says?"""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from serving.scheduler.config import Limits, SchedulerRules
from serving.scheduler.prefix_hash import block_hashes
from serving.scheduler.scheduler import Scheduler
from serving.types import Done, Request
from tests.serving.scheduler.test_kv_journal import SIZE, Follower, request, step

RULES = SchedulerRules(keep_answers=True, kv_events=True)


def answered(asked: Request, prompt: list[int], answer: list[int]) -> Request:
    """What the scheduler is told once a request has ended: its blocks, to the last token that was computed with."""
    tokens = request(asked.id, [*prompt, *answer[:-1]])
    return msgspec.structs.replace(asked, blocks=tokens.blocks, prompt=tokens.prompt)


class Device:
    """A scheduler whose steps all end, and whoever follows its cache."""

    def __init__(self, rules: SchedulerRules = RULES, blocks: int = 100) -> None:
        self.scheduler, self.follower = Scheduler(Limits(4, 64, blocks * SIZE, SIZE), rules), Follower()
        self.at_s, self.cached = 0.0, dict[str, int]()

    def run(self) -> None:
        """Step until nothing is left to do."""
        done = Done()
        while True:
            batch = step(self.scheduler, self.follower, self.at_s, done)
            self.cached |= dict(zip(batch.started, batch.found, strict=True))
            if not batch.ids:
                return
            done, self.at_s = Done(1), self.at_s + 1.0

    def ask(self, id: str, prompt: list[int], max_tokens: int) -> Request:
        asked = request(id, prompt, max_tokens)
        self.scheduler.submit(asked, in_time=True)
        self.run()
        return asked


some = st.lists(st.integers(0, 9), min_size=1, max_size=30)


@given(prompt=some, answer=some, more=some)
def test_the_next_turn_computes_nothing_of_the_first_again_but_what_fills_no_block(
    prompt: list[int], answer: list[int], more: list[int]
) -> None:
    device = Device()
    first = device.ask("first", prompt, len(answer))
    device.scheduler.remember(answered(first, prompt, answer))
    device.ask("next", [*prompt, *answer, *more], 1)
    assert device.cached["next"] == (len(prompt) + len(answer) - 1) // SIZE * SIZE
    assert set(device.follower.blocks) == set(block_hashes([*prompt, *answer, *more], SIZE))


def test_who_is_told_before_the_request_has_ended_finds_it_too() -> None:
    device, prompt, answer = Device(), [1] * 9, [2] * 12
    first = request("first", prompt, len(answer))
    device.scheduler.submit(first, in_time=True)
    step(device.scheduler, device.follower, 0.0, Done())
    device.scheduler.remember(answered(first, prompt, answer))
    step(device.scheduler, device.follower, 1.0, Done(1))
    step(device.scheduler, device.follower, 2.0, Done(11))
    device.ask("next", [*prompt, *answer, 3], 1)
    assert device.cached["next"] == 20


def test_what_was_evicted_meanwhile_is_no_more() -> None:
    device, prompt, answer = Device(blocks=12), [1] * 9, [2] * 12
    first = device.ask("first", prompt, len(answer))
    device.ask("other", [3] * 37, 1)
    device.scheduler.remember(answered(first, prompt, answer))
    device.ask("next", [*prompt, *answer, 3], 1)
    assert device.cached["next"] == 8
    assert device.scheduler.flush()


def test_where_nobody_will_tell_answers_are_not_kept() -> None:
    device, prompt, answer = Device(SchedulerRules()), [1] * 9, [2] * 12
    first = device.ask("first", prompt, len(answer))
    device.scheduler.remember(answered(first, prompt, answer))
    device.ask("next", [*prompt, *answer, 3], 1)
    assert device.cached["next"] == 8


def test_one_that_is_told_of_twice_harms_nobody() -> None:
    device, prompt, answer = Device(), [1] * 9, [2] * 12
    for _ in range(2):
        first = device.ask("first", prompt, len(answer))
    for _ in range(2):
        device.scheduler.remember(answered(first, prompt, answer))
    device.ask("next", [*prompt, *answer, 3], 1)
    assert device.cached["next"] == 20
