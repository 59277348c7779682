"""What prefill policies, prefix caching and preemption do to a batch, and to the gaps between tokens."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.load import load_device
from serving.device.pricing import ModelPricer
from serving.device.slow_tier import SlowTier
from serving.policies.modes import Modes
from serving.policies.prompt_pace import Curve, PromptPace
from serving.policies.step_options import StepOptions
from serving.scheduler.config import PREEMPTION, PREFILL, Limits, SchedulerRules, prefill_s
from serving.scheduler.scheduler import Scheduler
from serving.simulation.node import Outcome, VirtualNode
from serving.types import NEVER, Batch, Done, Request, StepRecord
from tests.serving.simulation.virtually import serve_virtually

WAYS = StepOptions(load_device("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b"))
ROOM = Limits(max_num_seqs=4, max_num_batched_tokens=64, kv_capacity_tokens=1000, block_tokens=4)


def request(id: str, prompt: int = 8, output: int = 4, blocks: list[int] | None = None, priority: int = 0) -> Request:
    return Request(id, 0.0, prompt, output, blocks=blocks or [], priority=priority)


class Device:
    """Carries out what the scheduler plans, a second a step."""

    def __init__(self, limits: Limits = ROOM, **rules: object) -> None:
        self.scheduler = Scheduler(limits, SchedulerRules(**rules))  # type: ignore[arg-type]
        self.at, self.last, self.done = 0.0, -1.0, Done()
        self.batch = Batch([], [], [], [], 0.0)

    def step(self, *requests: Request) -> Batch:
        for each in requests:
            self.scheduler.submit(each)
        self.batch = self.scheduler.plan(self.at, self.at, self.last, self.done)
        self.last, self.at, self.done = self.at, self.at + 1.0, Done(1)
        return self.batch


def test_mixed_steps_decode_and_take_a_chunk_of_a_prompt() -> None:
    device = Device(prefill_chunk=16)
    device.step(request("a"))
    assert device.step(request("b", prompt=40)).new_tokens == [1, 16]
    assert device.step().new_tokens == [1, 16]
    assert device.step().new_tokens == [1, 8]


def test_prefill_first_lets_those_who_decode_wait_for_the_prompt() -> None:
    device = Device(prefill="prefill-first")
    device.step(request("a"))
    waits = device.step(request("b", prompt=100))
    assert (waits.ids, waits.new_tokens, waits.horizon) == (["b"], [64], 1)
    assert (device.step().ids, device.step().ids) == (["b"], ["a", "b"])


def test_prefill_first_lets_in_no_prompt_beside_tokens_that_lockstep_has_filled_its_room_with() -> None:
    """What a run of steps has added to those who decode is taken only by their next step, which would preempt it."""
    device = Device(Limits(4, 64, kv_capacity_tokens=100, block_tokens=4), prefill="prefill-first")
    device.step(request("a", output=80))
    assert device.step().horizon > 60
    device.at, device.done = 61.0, Done(60)
    waits = device.step(request("b", prompt=60))
    assert (waits.ids, waits.context, waits.waiting, waits.preempted) == (["a"], [68], 1, [])


def test_after_a_preemption_whoever_waits_is_looked_at_in_the_next_step() -> None:
    """What the preempted one gave up may be room enough for the one that waits before it."""
    device = Device(Limits(8, 64, kv_capacity_tokens=64, block_tokens=4), batching="priority")
    device.step(request("a", prompt=8, output=40), request("c", prompt=36, output=20, priority=5))
    while not (preempting := device.step(*[request("d", prompt=12, output=4)] * (device.at == 6))).preempted:
        assert device.at < 40
    assert (preempting.preempted, preempting.horizon) == (["c"], 1)


def test_decode_first_lets_the_prompt_wait_for_those_who_decode() -> None:
    device = Device(prefill="decode-first")
    device.step(request("a", output=4))
    assert device.step().ids == ["a"]
    assert device.step(request("b")).ids == ["a"]
    assert device.step().ids == ["a"]
    assert device.step().ids == ["b"]


def test_decode_first_fills_the_batch_before_it_decodes() -> None:
    device = Device(prefill="decode-first")
    device.step(request("a", prompt=60), request("b", prompt=60), request("c", prompt=4))
    assert device.step().ids == ["b", "c"]
    assert (device.step().ids, device.batch.phase) == (["a", "b", "c"], "decode")


def test_a_prompt_that_begins_like_another_computes_only_the_rest() -> None:
    device = Device()
    device.step(request("a", prompt=18, blocks=[1, 2, 3, 4]))
    again = device.step(request("b", prompt=18, blocks=[1, 2, 3, 9]))
    assert (again.new_tokens, again.context) == ([1, 6], [18, 12])
    assert (again.queried_tokens, again.cached_tokens) == (18, 12)
    assert (again.started, again.found) == (["b"], [12])


def test_of_a_prompt_that_is_known_to_its_end_one_block_is_computed_again() -> None:
    device = Device()
    device.step(request("a", prompt=16, blocks=[1, 2, 3, 4]))
    assert device.step(request("b", prompt=16, blocks=[1, 2, 3, 4])).new_tokens == [1, 4]


def test_without_prefix_caching_everything_is_computed() -> None:
    device = Device(prefix_caching=False)
    device.step(request("a", prompt=16, blocks=[1, 2, 3, 4]))
    assert device.step(request("b", prompt=16, blocks=[1, 2, 3, 4])).new_tokens == [1, 16]


TIGHT = Limits(max_num_seqs=4, max_num_batched_tokens=64, kv_capacity_tokens=24, block_tokens=4, spill_tokens=100)


@pytest.mark.parametrize("preemption", PREEMPTION)
def test_who_is_preempted_is_computed_again_or_fetched(preemption: str) -> None:
    device = Device(TIGHT, preemption=preemption)
    device.step(request("a", output=9), request("b", output=9))
    seen = [device.step() for _ in range(20)]
    preempting = next(batch for batch in seen if batch.preemptions)
    assert preempting.ids == ["a"]
    back = next(batch for batch in seen if batch.started == ["b"])
    spills = preemption == "spill"
    assert (preempting.spilled_tokens, back.fetched_tokens) == ((12, 12) if spills else (0, 0))
    assert back.new_tokens == ([1] if spills else [13])


def test_of_what_was_spilled_only_what_the_prefix_cache_lacks_is_fetched() -> None:
    device = Device(TIGHT, preemption="spill")
    device.step(request("a", output=9, blocks=[1, 2]), request("b", output=9, blocks=[3, 4]))
    seen = [device.step() for _ in range(20)]
    back = next(batch for batch in seen if batch.started == ["b"])
    assert sum(batch.spilled_tokens for batch in seen) == 12
    # The blocks of its prompt are still there, though nobody holds them.
    assert (back.fetched_tokens, back.new_tokens, back.cached_tokens) == (4, [1], 0)


@pytest.mark.parametrize("preemption", PREEMPTION)
def test_who_was_preempted_is_not_looked_for_in_the_prefix_cache_again(preemption: str) -> None:
    device = Device(TIGHT, preemption=preemption)
    seen = [device.step(request("a", output=9, blocks=[1, 2]), request("b", output=9, blocks=[3, 4]))]
    seen += [device.step() for _ in range(20)]
    assert sum(batch.preemptions for batch in seen) and [batch for batch in seen if batch.started == ["b"]]
    assert (sum(batch.queried_tokens for batch in seen), sum(batch.cached_tokens for batch in seen)) == (16, 0)


def test_the_least_urgent_is_preempted() -> None:
    device = Device(TIGHT)
    device.step(request("a", output=9, priority=1))
    device.step(request("b", output=9))  # admitted last
    while not device.step().preemptions:
        pass
    assert device.batch.ids == ["b"]


@pytest.mark.parametrize("aborted", [True, False])
def test_room_for_spilled_tokens_is_free_again_once_they_have_gone(aborted: bool) -> None:
    device = Device(replace(TIGHT, spill_tokens=12), preemption="spill")
    device.step(request("a", output=9), request("b", output=12))
    while not device.step().preemptions:
        pass
    assert device.batch.spilled_tokens == 12
    if aborted:
        device.scheduler.abort("b")
    else:
        while not device.step().fetched_tokens:
            pass
    device.step(request("c", output=12))
    while not device.step().preemptions:
        pass
    assert device.batch.spilled_tokens > 0


def test_in_another_condition_prompts_take_as_long_as_they_do_there() -> None:
    limits = replace(ROOM, max_num_seqs=1, prompts=PromptPace(Curve((0, 1), (1.0, 1.0))))

    def first(now: Limits) -> list[str]:
        scheduler = Scheduler(limits, SchedulerRules("slo-aware"))
        scheduler.limit(now)
        for id, ttft_s in (("late", 5.0), ("in time", 15.0)):
            scheduler.submit(Request(id, 0.0, 8, 1, ttft_s=ttft_s))
        return scheduler.plan(0.0, 0.0, -1.0, Done()).ids

    slower = replace(limits, prompts=PromptPace(Curve((0, 1), (9.0, 9.0))))
    assert (first(limits), first(slower)) == (["late"], ["in time"])


def test_with_less_room_after_a_fault_sequences_leave_until_the_rest_fits() -> None:
    device = Device()
    device.step(request("a", prompt=20, output=50), request("b", prompt=20, output=50))
    device.scheduler.limit(replace(ROOM, kv_capacity_tokens=30))
    while not device.step().preemptions:
        pass
    assert len(device.batch.ids) == 1


def test_a_lone_sequence_runs_even_where_it_has_no_room() -> None:
    device = Device(Limits(4, 64, 8, block_tokens=4))
    assert device.step(request("a", prompt=30, output=3)).new_tokens == [30]
    assert [device.step().new_tokens, device.step().new_tokens] == [[1], [1]]


@given(
    st.lists(
        st.tuples(st.floats(0, 50), st.integers(1, 60), st.integers(1, 30), st.integers(0, 2)), min_size=1, max_size=20
    ),
    st.sampled_from(PREFILL),
    st.sampled_from(PREEMPTION),
    st.sampled_from(["fcfs", "topic-aware", "slo-aware", "priority"]),
    st.sampled_from(["none", "tokens"]),
    st.sampled_from([0, 7]),
    st.sampled_from([2, 50]),
)
def test_under_all_policies_every_request_gets_all_its_tokens_within_the_limits(
    drawn: list[tuple[float, int, int, int]],
    prefill: str,
    preemption: str,
    batching: str,
    fairness: str,
    chunk: int,
    tokens: int,
) -> None:
    """Also where a step takes fewer tokens than there are sequences."""
    limits = Limits(3, tokens, 120, block_tokens=4, spill_tokens=60)
    rules = SchedulerRules(batching, prefill, chunk, preemption, fairness, hold_s=2.0)
    scheduler = Scheduler(limits, rules)
    requests = [
        Request(str(i), at, prompt, output, topic="ab"[kind % 2], key=str(kind), priority=kind, blocks=[kind, kind + 9])
        for i, (at, prompt, output, kind) in enumerate(drawn)
    ]
    for each in requests:
        scheduler.submit(each)
    out, at, last, steps, spilled = dict.fromkeys((r.id for r in requests), 0), 0.0, -1.0, 0, 0
    for _ in range(10_000):
        batch = scheduler.plan(at, at, last, Done(steps))
        steps = batch.horizon if batch.ids else 0
        assert len(batch.ids) <= 3 and sum(batch.new_tokens) <= tokens
        assert batch.kv_tokens <= limits.kv_capacity_tokens
        # Of what was spilled the prefix cache may still have some.
        spilled += batch.spilled_tokens - batch.fetched_tokens
        assert spilled >= 0 and scheduler._spilled <= limits.spill_tokens
        of_prompts = (new for new, decodes in zip(batch.new_tokens, batch.decodes, strict=True) if not decodes)
        assert chunk == 0 or sum(of_prompts) <= chunk
        for id, emits in zip(batch.ids, batch.emits, strict=True):
            out[id] += steps * emits
        if not batch.ids and batch.until_s == NEVER:
            break
        last, at = at, batch.until_s if not batch.ids else batch.start_s + steps
    assert out == {r.id: r.max_tokens for r in requests}
    assert scheduler.kv.used == 0


def gaps(outcomes: list[Outcome]) -> list[float]:
    return [later - one for each in outcomes for one, later in pairwise(each.tokens_s)]


def served(**rules: object) -> list[Outcome]:
    """Eight who decode for long, and a prompt of 1,500 tokens each second."""
    talk = [Request(f"talk {i}", 0.0, 50, 300) for i in range(8)]
    read = [Request(f"read {i}", 1.0 + i, 1500, 2) for i in range(4)]
    limits = Limits(16, 2048, WAYS.device.kv_capacity_tokens)
    pricer = ModelPricer(WAYS, Modes.of("fixed-ar", ()))
    node = VirtualNode(0, pricer, SlowTier(WAYS.device.ext_bytes_per_s), limits, SchedulerRules(**rules))  # type: ignore[arg-type]
    outcomes, _ = serve_virtually(talk + read, [node])
    return outcomes


def test_what_each_prefill_policy_does_to_tokens_in_between_and_to_the_first() -> None:
    of = {name: served(prefill=name) for name in PREFILL} | {"chunked": served(prefill_chunk=128)}
    longest = {name: max(gaps(outcomes[:8])) for name, outcomes in of.items()}
    ttft = {name: np.mean([each.ttft_s for each in outcomes[8:]]) for name, outcomes in of.items()}
    # Who decodes is not disturbed at all, by letting prompts wait until it has done.
    assert longest["decode-first"] < longest["mixed"] / 3 and ttft["decode-first"] > 3 * ttft["mixed"]
    # A whole prompt reads nearly all experts, once: with it or after it, the token is as late.
    assert longest["mixed"] < longest["prefill-first"] < 1.3 * longest["mixed"]
    # A chunk of it reads nearly as many again: not sooner over for those who decode, and far longer for its own.
    assert longest["chunked"] > 0.6 * longest["mixed"] and ttft["chunked"] > 3 * ttft["mixed"]


def test_a_prompt_takes_what_its_chunks_take() -> None:
    """Each streams the experts anew."""
    pace = PromptPace(Curve((0, 1000), (0.2, 0.3)), reading_s=1e-6)
    limits = Limits(8, 8192, 10_000, prompts=pace)
    in_chunks = 3 * 0.2 + 0.025 + 1e-6 * (100 * 100 + 50 * 200)
    assert prefill_s(limits, SchedulerRules(prefill_chunk=100), 250) == pytest.approx(in_chunks)
    assert prefill_s(limits, SchedulerRules(), 250) == pytest.approx(0.225)
    # A step computes no more than it may, whether chunks are asked for or not.
    assert prefill_s(replace(limits, max_num_batched_tokens=100), SchedulerRules(), 250) == pytest.approx(in_chunks)


KNOWN = [1, 2, 3, 4]


@pytest.mark.parametrize(
    "last", [request("b", prompt=17), request("b", prompt=17, blocks=KNOWN), request("b", prompt=1)]
)
@pytest.mark.parametrize("prefill", PREFILL)
def test_the_last_token_of_a_prompt_is_no_decoding_however_few_came_before(prefill: str, last: Request) -> None:
    device = Device(prefill_chunk=16, prefill=prefill)
    device.step(request("a", prompt=16, output=3, blocks=KNOWN))
    seen = [device.step(last), *(device.step() for _ in range(7))]
    ends = next(batch for batch in seen if "b" in batch.ids and batch.emits[batch.ids.index("b")])
    at = ends.ids.index("b")
    assert (ends.new_tokens[at], ends.decodes[at], ends.horizon) == (1, False, 1)
    assert ends.decoding == len(ends.ids) - 1 and ends.phase == ("mixed" if ends.decoding else "prefill")
    assert ends.plan.decodes.tolist() == ends.decodes
    after = seen[seen.index(ends) + 1 :]
    assert all(all(batch.decodes) for batch in after) and sum("b" in batch.ids for batch in after) == 3


def test_the_block_that_a_prompts_last_token_fills_is_found_by_others_at_once() -> None:
    device = Device(prefill_chunk=15)
    device.step(request("a", prompt=16, output=9, blocks=KNOWN))
    device.step()
    assert device.step(request("b", prompt=18, blocks=KNOWN)).new_tokens == [1, 2]


def test_a_prompt_of_a_token_more_than_a_chunk_takes_no_longer_where_others_are_drafted_for() -> None:
    """Nobody drafts behind a prompt that is not over, nor is a chunk of one token what tau counts."""
    limits, tier = Limits(16, 2048, WAYS.device.kv_capacity_tokens), SlowTier(WAYS.device.ext_bytes_per_s)
    drafts = StepOptions(load_device("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b", "elastic"))

    def alone(prompt: int, mode: str) -> tuple[float, list[StepRecord]]:
        pricer = ModelPricer(drafts, Modes.of(mode, (drafts.calibrated,)))
        node = VirtualNode(0, pricer, tier, limits, SchedulerRules(prefill_chunk=512))
        (outcome,), records = serve_virtually([Request("a", 0.0, prompt, 40)], [node])
        return outcome.ttft_s, records

    plain_s, _ = alone(513, "fixed-ar")
    ttft_s, records = alone(513, "fixed-sd")
    assert ttft_s == plain_s < alone(514, "fixed-ar")[0]
    assert [record.phase for record in records[:3]] == ["prefill", "prefill", "decode"]
    assert sum(record.accepted + record.drafts for record in records) == 39


def test_who_is_preempted_keeps_what_it_was_served_less() -> None:
    device = Device(Limits(8, 64, 160, 16), fairness="tokens", prefix_caching=False)
    device.step(*(Request(f"b{i}", 0.0, 16, 100, key="B") for i in range(3)))
    for _ in range(3):
        device.step()
    device.step(Request("a", 0.0, 16, 100, key="A"))
    while not device.batch.preempted:
        before = dict(device.scheduler._queue._served)  # type: ignore[attr-defined]
        device.step()
    assert device.batch.preempted == ["a"] and before["A"] < before["B"]
    after = device.scheduler._queue._served  # type: ignore[attr-defined]
    assert after["A"] < after["B"]
