"""Does a scheduler see how many could decode together, and how long answers get?"""

import pytest

from serving.device.pricing import decode_batch
from serving.policies.prompt_load import Crowd
from serving.scheduler.config import Limits, SchedulerRules
from serving.scheduler.scheduler import Scheduler
from serving.types import Batch, Done, Outlook, Request

ROOMY = Limits(max_num_seqs=8, max_num_batched_tokens=100, kv_capacity_tokens=10_000, block_tokens=1)


def first_plan(limits: Limits, requests: int, rules: SchedulerRules | None = None) -> Batch:
    scheduler = Scheduler(limits, rules)
    for each in range(requests):
        scheduler.submit(Request(f"r{each}", 0.0, 100, 20, 0))
    return scheduler.plan(0.0, 0.0, -1.0, Done(0))


def test_those_who_wait_for_their_prompts_turn_only_are_admissible() -> None:
    # A step has room for one prompt of 100 tokens; eight could run.
    assert first_plan(ROOMY, 5).outlook == Outlook(admissible=4, prompt_tokens=100)
    assert first_plan(ROOMY, 20).outlook == Outlook(admissible=7, prompt_tokens=100)


def test_for_whom_there_is_no_room_in_the_kv_cache_are_not() -> None:
    tight = Limits(max_num_seqs=8, max_num_batched_tokens=100, kv_capacity_tokens=350, block_tokens=1)
    assert first_plan(tight, 8).outlook.admissible == 2


def test_a_chunk_is_the_most_that_a_step_computes_of_prompts() -> None:
    assert first_plan(ROOMY, 1, SchedulerRules(prefill_chunk=32)).outlook.prompt_tokens == 32


@pytest.mark.parametrize(("released", "share"), [(20, 1.0), (5, 0.25)])
def test_answers_are_as_long_as_those_that_ended_lately(released: int, share: float) -> None:
    scheduler = Scheduler(ROOMY)
    at_s, batch = 0.0, Batch([], [], [], [], 0.0)
    for each in range(100):
        scheduler.submit(Request(f"r{each}", at_s, 10, 20, 0))
        batch = scheduler.plan(at_s, at_s, at_s - 1.0, Done(0))
        batch = scheduler.plan(at_s, at_s, at_s - 1.0, Done(1))
        scheduler.plan(at_s + 1, at_s + 1, at_s, Done(released - 1, finished=[f"r{each}"]))
        at_s += 2.0
    assert batch.outlook.answered == pytest.approx(share, abs=0.01)


def test_who_gives_up_before_the_first_token_says_nothing_of_answers() -> None:
    scheduler = Scheduler(ROOMY)
    for each in range(100):
        scheduler.submit(Request(f"r{each}", 0.0, 200, 20, 0))
        scheduler.plan(0.0, 0.0, -1.0, Done(0))
        scheduler.abort(f"r{each}")
    scheduler.submit(Request("last", 0.0, 10, 20, 0))
    assert scheduler.plan(0.0, 0.0, -1.0, Done(0)).outlook.answered == 1.0


def test_a_batch_tells_of_its_crowd() -> None:
    # Two sequences of 100 tokens of prompts and 20 of answers, a third one whose prompt is computed from its 60th token
    # on, which is none of those that decode, and four more.
    asked = {"released": [5, 15, 0], "remaining": [15, 5, 20], "outlook": Outlook(4, 8192, 0.9)}
    batch = Batch(["a", "b", "c"], [1, 1, 40], [104, 114, 60], [True] * 3, 0.0, **asked)
    found = decode_batch(batch, batch.plan, 1e11)
    assert (found.decoding, found.kv_tokens, found.prompt_tokens) == (2, 218, 40)
    assert found.crowd == Crowd(7, 100.0, 18.0, 8192)
