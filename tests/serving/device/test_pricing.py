"""Does a traced device hit and miss what its sequences' routes say, and pay for it?"""

import json
import threading
import time

import msgspec
import numpy as np
import pytest

from device_model.condition import Condition
from device_model.load import load_device
from device_model.specs.hardware_file import FOLDER
from device_model.specs.spec import DeviceError
from device_model.speculation import mean_accepted
from device_model.step import StepPlan
from serving.clock import VirtualClock
from serving.device.device_spec import DeviceSpec
from serving.device.engine import Engine
from serving.device.live_driver import LiveDriver
from serving.device.live_routes import LiveRoutes
from serving.device.pricing import ModelPricer
from serving.device.routed_pricing import TracedDevice
from serving.device.slow_tier import SlowTier
from serving.device.token_buffer import TokenBuffer
from serving.device.traced_pricing import TracePricer, check_trace
from serving.policies.modes import Modes
from serving.policies.step_option import PLAIN
from serving.policies.step_options import StepOptions
from serving.scenario.scenario import BUNDLED_MODEL, Scenario
from serving.scheduler.config import Limits
from serving.scheduler.scheduler import Scheduler
from serving.simulation.simulator import recorded
from serving.token_model.route_format import format_of
from serving.types import Batch, Chunk, Request
from serving.usage_error import UsageError

TRACE = TracedDevice("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b", str(BUNDLED_MODEL))
DEVICE = load_device(*TRACE[:3])
LAYERS, EXPERTS, TOP_K = format_of(str(BUNDLED_MODEL)).routers
FULL_SPEED = DEVICE.ext_bytes_per_s


def traced_by(trace: TracedDevice, tokens: TokenBuffer, speed: float) -> TracePricer:
    return TracePricer(trace, LiveRoutes(trace, tokens, speed))


def rows(*tokens: int) -> bytes:
    """Routes of tokens: each chooses experts in a row from its number on, in every layer."""
    chosen = (np.array(tokens)[:, None, None] + np.arange(TOP_K)) % EXPERTS
    return np.repeat(chosen, LAYERS, axis=1).astype(np.uint8).tobytes()


def source(begun: bool = True, **requests: list[bytes]) -> TokenBuffer:
    """Tokens that are ready; of each request the routes, chunk by chunk: from its first on, or some later one."""
    tokens = TokenBuffer()
    for id, chunks in requests.items():
        tokens.open(id, int(begun))
        tokens.push([Chunk(id, i, [1], routes=routes) for i, routes in enumerate(chunks, int(begun))])
    return tokens


def batch(ids: list[str], new: list[int], context: list[int], horizon: int = 1) -> Batch:
    return Batch(ids, new, context, [True] * len(ids), 0.0, horizon=horizon)


def run(traced: TracePricer, tokens: TokenBuffer, of: Batch):
    steps = []
    for priced in traced.price(of, FULL_SPEED):
        steps.append(priced)
        tokens.take(dict.fromkeys(of.ids, 1))
    return steps


def test_a_token_that_chooses_as_the_last_one_finds_its_experts_in_hb():
    tokens = source(a=[rows(0), rows(0), rows(0), rows(17)])
    steps = run(traced_by(TRACE, tokens, 1.0), tokens, batch(["a"], [1], [100], horizon=4))
    hits = [step.cost.expert_hits / step.cost.expert_lookups for step in steps]
    assert hits == [0.0, 1.0, 1.0, 0.0]
    times = [step.cost.latency_s for step in steps]
    assert times[0] > 2 * times[1] and times[3] == pytest.approx(times[0], rel=0.01)
    assert all(step.unrouted == 0 for step in steps)


def test_sequences_that_choose_alike_share_reads():
    alike, apart = source(a=[rows(0)], b=[rows(0)]), source(a=[rows(0)], b=[rows(9)])
    reads = [
        run(traced_by(TRACE, tokens, 1.0), tokens, batch(["a", "b"], [1, 1], [9, 9]))[0].cost.expert_lookups
        for tokens in (alike, apart)
    ]
    assert reads[1] == 2 * reads[0]


def test_a_chunk_of_a_prompt_is_priced_by_its_own_tokens():
    tokens = source(begun=False, a=[rows(0, 0, 0, 9, 9)])
    traced = traced_by(TRACE, tokens, 1.0)
    first = next(traced.price(batch(["a"], [3], [0]), FULL_SPEED))
    second = next(traced.price(batch(["a"], [2], [3]), FULL_SPEED))
    assert first.cost.expert_lookups == second.cost.expert_lookups == 48 * 8
    assert (second.cost.expert_hits, first.unrouted, second.unrouted) == (0, 0, 0)


def test_tokens_that_are_not_there_are_guessed_and_counted():
    tokens = source(a=[rows(5)], b=[])
    traced = traced_by(TRACE, tokens, 1.0)
    steps = run(traced, tokens, batch(["a", "b"], [1, 1], [9, 9], horizon=3))
    assert [step.unrouted for step in steps] == [1, 2, 2]
    assert steps[1].cost.expert_hits == steps[1].cost.expert_lookups  # as it chose last


@pytest.mark.parametrize("nonsense", [b"", b"x", rows(1)[:-1], b"\xff" * len(rows(1))])
def test_routes_that_are_none_are_guessed_too(nonsense: bytes):
    tokens = source(a=[rows(5), nonsense, rows(5)])
    steps = run(traced_by(TRACE, tokens, 1.0), tokens, batch(["a"], [1], [9], horizon=3))
    assert [step.unrouted for step in steps] == [0, 1, 0]


def test_what_is_drafted_behind_a_requests_end_chooses_as_its_last_tokens_did():
    tokens = TokenBuffer()
    tokens.open("a", 1)
    tokens.push([Chunk("a", i, [1], 0 if i == 3 else None, routes=rows(10 * i)) for i in (1, 2, 3)])
    routes = LiveRoutes(TRACE, tokens, 1.0)
    found, unrouted = routes.rows(batch(["a"], [1], [9]), np.array([1]), np.array([9]), ahead=8)
    chosen = [tuple(row.ravel()) for row in found]
    assert unrouted == 0 and len(chosen) == 9
    assert chosen[3:6] == chosen[6:9] and set(chosen[3:6]) == set(chosen[:3]) and len(set(chosen)) == 3


def test_a_prompt_waits_for_its_routes_but_not_beyond_half_its_step():
    tokens = source(begun=False, a=[])
    traced = traced_by(TRACE, tokens, 1.0)
    prompt = batch(["a"], [5], [0])
    began = time.monotonic()
    assert next(traced.price(prompt, FULL_SPEED)).unrouted == 5
    waited_s = time.monotonic() - began
    expected_s = DEVICE.probe(prompt.plan).latency_s[0]
    assert waited_s >= 0.45 * expected_s
    later = Chunk("a", 0, [1], routes=rows(0, 1, 2, 3, 4))
    threading.Timer(0.1 * expected_s, lambda: tokens.push([later])).start()
    assert next(traced.price(prompt, FULL_SPEED)).unrouted == 0


@pytest.mark.parametrize("speed", [1.0, 0.5])
def test_who_looks_after_a_device_hears_how_long_it_waits_for_routes(speed: float):
    """At a low speed that is longer than any device may be silent else."""
    tokens, waits = source(begun=False, a=[]), list[float]()
    prompt = batch(["a"], [5], [0])
    LiveRoutes(TRACE, tokens, speed, waits.append).rows(prompt, np.array([5]), np.array([0]))
    assert waits == [pytest.approx(0.5 * DEVICE.probe(prompt.plan).latency_s[0] / speed)]


def test_clients_get_no_routes():
    tokens = source(a=[rows(1)])
    [chunk], _ = tokens.take({"a": 1})
    assert chunk.routes is None
    assert tokens.take({"a": 1}) == ([], 1)
    [overdue] = tokens.push([Chunk("a", 2, [1], routes=rows(1))])
    assert overdue.routes is None


def test_a_schedule_of_traced_steps_is_repeatable_and_its_time_is_that_of_its_costs():
    draw = np.random.default_rng(0)
    requests = [Request(str(i), 0.1 * i, 6, 20) for i in range(3)]
    routes = {
        r.id: [rows(*draw.integers(0, EXPERTS, 6)), *(rows(t) for t in draw.integers(0, 9, 19))] for r in requests
    }

    def releases():
        tokens, found, scheduler = TokenBuffer(), [], Scheduler(Limits(8, 256, 10**5))
        for request in requests:
            tokens.open(request.id)
            last = request.max_tokens - 1
            tokens.push(
                [
                    Chunk(request.id, i, [1], 1 if i == last else None, routes=r)
                    for i, r in enumerate(routes[request.id])
                ]
            )
            scheduler.submit(request)
        tier = SlowTier(FULL_SPEED)
        engine = Engine(0, scheduler, traced_by(TRACE, tokens, 1.0), tier, tokens, found.append)
        driver = LiveDriver(engine, VirtualClock())
        while sum(chunk.finish is not None for release in found for chunk in release.chunks) < len(requests):
            driver.cycle()
        return found

    once, again = releases(), releases()
    assert once == again
    records = [release.record for release in once]
    assert sum(r.expert_hits for r in records) / sum(r.expert_lookups for r in records) > 0.3
    assert all(release.at_s == pytest.approx(release.start_s + release.record.latency_s) for release in once)


def test_expected_and_traced_steps_agree_on_what_has_nothing_to_do_with_experts():
    tokens = source(a=[rows(0)])
    one = batch(["a"], [1], [3000])
    traced = next(traced_by(TRACE, tokens, 1.0).price(one, FULL_SPEED)).cost
    expected = next(ModelPricer(StepOptions(DEVICE), Modes.of("fixed-ar", ())).price(one, FULL_SPEED)).cost
    assert traced.expert_lookups == pytest.approx(expected.expert_lookups)
    moved = [sum(cost.traffic) for cost in (traced, expected)]
    assert moved[0] == pytest.approx(moved[1], rel=0.5)
    assert traced.energy.compute_j == pytest.approx(expected.energy.compute_j)


def test_what_is_moved_before_a_traced_step_is_paid_for_once():
    tokens = source(a=[rows(0), rows(0)])
    still = batch(["a"], [1], [3000], horizon=2)
    of = msgspec.structs.replace(still, fetched_tokens=500, spilled_tokens=200)
    plain, _ = run(traced_by(TRACE, tokens, 1.0), tokens, still)
    traced = traced_by(TRACE, source(a=[rows(0), rows(0)]), 1.0)
    first = next(traced.price(of, FULL_SPEED))
    moved = StepOptions(DEVICE).move(500, 200, FULL_SPEED)
    assert first.moved_s == moved.latency_s > 0
    assert first.cost == moved.plus(plain.cost)
    assert traced.again(first, 0, FULL_SPEED).latency_s == pytest.approx(plain.cost.latency_s)
    assert sum(traced.again(first, 0, FULL_SPEED).energy) == pytest.approx(sum(plain.cost.energy))


def test_a_step_is_repriced_by_the_hardwares_file_as_it_is_now(tmp_path):
    def slower(hardware: str) -> float:
        traced = traced_by(TRACE._replace(hardware=hardware), source(a=[rows(0)]), 1.0)
        first = next(traced.price(batch(["a"], [1], [3000]), FULL_SPEED))
        return traced.again(first, 0, 0.5 * FULL_SPEED).latency_s / first.cost.latency_s

    def written(name: str) -> str:
        file.write_text(FOLDER.joinpath(f"{name}.toml").read_text())
        return str(file)

    file, small, large = tmp_path / "mine.toml", "elmoe3d-4gb", "elmoe3d-8gb"
    assert slower(small) != pytest.approx(slower(large), rel=0.01)
    for name in (small, large):
        assert slower(written(name)) == slower(name)


def test_only_a_system_whose_experts_lie_in_tiers_can_be_traced():
    check_trace(TRACE._replace(system="offload", hardware="a100-8gb", model="olmoe-1b-7b"))
    with pytest.raises(DeviceError, match="Only systems that cache experts"):
        check_trace(TRACE._replace(system="pim"))


def test_what_has_no_hb_reads_the_experts_that_were_chosen_and_finds_none():
    tokens = source(a=[rows(0), rows(0)], b=[rows(0), rows(9)])
    steps = run(
        traced_by(TRACE._replace(system="xpu"), tokens, 1.0), tokens, batch(["a", "b"], [1, 1], [9, 9], horizon=2)
    )
    assert [(step.cost.expert_lookups, step.cost.expert_hits) for step in steps] == [(48 * 8, 0), (2 * 48 * 8, 0)]


def test_only_a_token_model_that_routes_can_be_traced(tmp_path):
    dense = {
        "model_type": "qwen2",
        "num_hidden_layers": 2,
        "hidden_size": 64,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "intermediate_size": 128,
        "vocab_size": 100,
        "max_position_embeddings": 128,
        "tie_word_embeddings": True,
    }
    (tmp_path / "config.json").write_text(json.dumps(dense))
    with pytest.raises(UsageError, match="no experts"):
        check_trace(TRACE._replace(token_model=str(tmp_path)))


def step_options(draft: str = "elastic") -> StepOptions:
    return StepOptions(load_device(*TRACE[:3], draft))


def speculating(of: StepOptions) -> ModelPricer:
    return ModelPricer(of, Modes.of("fixed-sd", (of.calibrated,)))


def drafting(ids: list[str], new: list[int], remaining: int = 100, seed: int = 5) -> Batch:
    emits = [True] * len(ids)
    seeds, released = [seed + i for i in range(len(ids))], [7] * len(ids)
    return Batch(ids, new, [1000] * len(ids), emits, 0.0, seeds, released, [remaining] * len(ids), horizon=9)


def test_a_step_that_drafts_is_one_step_and_its_draws_are_those_of_its_requests():
    pricer = speculating(step_options())
    one, again = (list(pricer.price(drafting(["a", "b"], [1, 1]), FULL_SPEED)) for _ in range(2))
    one, again = ([each._replace(plan=None) for each in steps] for steps in (one, again))
    assert len(one) == 1 and one == again
    [step] = one
    assert (step.drafts, step.depth) == (2, step_options().calibrated)
    assert step.cost.seconds.draft_s > 0
    alone = next(pricer.price(drafting(["b"], [1], seed=6), FULL_SPEED))
    # The same draws; the rate of a smaller batch is no lower.
    assert alone.accepted[0] >= step.accepted[1]


def test_only_what_decodes_drafts_and_nobody_has_more_accepted_than_is_left():
    pricer = speculating(step_options())
    mixed = next(pricer.price(drafting(["a", "b"], [1, 64]), FULL_SPEED))
    assert mixed.drafts == 1 and mixed.accepted[1] == 0
    assert next(pricer.price(drafting(["a"], [1], remaining=1), FULL_SPEED)).accepted == [0]
    prompt = next(pricer.price(drafting(["a"], [64]), FULL_SPEED))
    assert (prompt.drafts, prompt.accepted) == (0, []) and prompt.cost.seconds.draft_s == 0


def test_the_last_token_of_a_prompt_is_priced_as_one_of_a_prompt_and_has_no_draft():
    pricer, of = speculating(step_options()), drafting(["a", "b"], [1, 1])
    alone = next(pricer.price(drafting(["a"], [1]), FULL_SPEED))
    beside = next(pricer.price(msgspec.structs.replace(of, released=[7, 0]), FULL_SPEED))
    assert (beside.drafts, sum(beside.accepted_by)) == (1, 1) and beside.accepted == [*alone.accepted, 0]
    assert beside.cost.seconds.draft_s == pytest.approx(alone.cost.seconds.draft_s, rel=0.01)
    assert beside.cost.latency_s > alone.cost.latency_s
    only = msgspec.structs.replace(of, released=[0, 0])
    assert next(pricer.price(only, FULL_SPEED)).reason == "nothing decodes"


@pytest.mark.parametrize("draft", ["elastic", "eagle", "quant"])
def test_requests_that_draft_get_their_tokens_in_as_many_steps_as_acceptance_says(draft):
    requests = [Request(str(i), 0.0, 100, 200, seed=i) for i in range(8)]
    tokens, releases, scheduler = TokenBuffer(), [], Scheduler(Limits(8, 2048, 10**5))
    for request in requests:
        tokens.open(request.id)
        tokens.push([Chunk(request.id, i, [i], 1 if i == 199 else None) for i in range(200)])
        scheduler.submit(request)
    source = step_options(draft)
    engine = Engine(0, scheduler, speculating(source), SlowTier(FULL_SPEED), tokens, releases.append)
    driver = LiveDriver(engine, VirtualClock())
    while sum(chunk.finish is not None for release in releases for chunk in release.chunks) < len(requests):
        driver.cycle()
    got = {
        r.id: [c.tokens[0] for release in releases for c in release.chunks if c.request_id == r.id] for r in requests
    }
    assert all(taken == list(range(200)) for taken in got.values())
    records = [release.record for release in releases if release.record.mode == "sd"]
    full = [record for record in records if record.batch == 8]
    alpha = sum(record.accepted for record in full) / sum(record.drafted for record in full)
    plan = StepPlan.of(*[(1, 200)] * 8)
    [option] = source.price(plan, depths=(source.calibrated,))
    expected = mean_accepted(option.rate, option.depth) / option.depth
    assert alpha == pytest.approx(expected, abs=0.05)
    shape = option.shape
    assert {(each.width, each.verified / each.drafts) for each in records} == {(shape.width, shape.verify_tokens)}
    assert sum(record.underruns for record in records) == 0


def test_a_retry_from_any_token_on_accepts_what_the_first_try_did():
    pricer = speculating(step_options())
    begun = next(pricer.price(drafting(["a"], [1]), FULL_SPEED)).accepted
    elsewhere = next(pricer.price(drafting(["a-again"], [1]), FULL_SPEED)).accepted
    assert begun == elsewhere


def test_a_depth_without_a_draft_and_an_unknown_source_of_rates_are_refused():
    with pytest.raises(ValueError, match="a device without a draft"):
        StepOptions(DEVICE).price(StepPlan.of((1, 9)), depths=(3,))
    with pytest.raises(UsageError, match="published or measured"):
        StepOptions(DEVICE, "guessed")


def test_where_nothing_decodes_there_is_only_the_plain_way():
    assert [option.depth for option in step_options().price(StepPlan.of((64, 0)), depths=(PLAIN, 5, 10))] == [PLAIN]


def test_what_is_spilled_or_fetched_takes_its_time_and_energy_before_the_step() -> None:
    pricer = ModelPricer(step_options(), Modes.of("fixed-ar", ()))
    plain = drafting(["a"], [1])
    moving = msgspec.structs.replace(plain, spilled_tokens=3000, fetched_tokens=1000)
    alone, *rest = pricer.price(plain, FULL_SPEED)
    first, *others = pricer.price(moving, FULL_SPEED)
    bytes_moved = 4000 * DEVICE.kv_bytes_per_token
    assert first.cost.latency_s - alone.cost.latency_s == pytest.approx(bytes_moved / FULL_SPEED, rel=1e-6)
    assert first.cost.traffic.ext_bytes - alone.cost.traffic.ext_bytes == pytest.approx(bytes_moved)
    assert first.cost.energy_j > alone.cost.energy_j and others == rest


def test_a_traced_device_weighs_modes_in_the_condition_that_it_is_in() -> None:
    scenario = Scenario(draft="elastic", residency="trace", mode="cost")
    spec = DeviceSpec.of(scenario, scenario.members[0])
    half = spec.in_condition(Condition(hb_share=0.5))
    priced = half.repriced(spec.pricer(spec.load(), recorded), half.load(), recorded)
    sequences = 64
    batch = Batch(
        [str(number) for number in range(sequences)],
        [1] * sequences,
        [1024] * sequences,
        [True] * sequences,
        0.0,
        horizon=4,
        released=[10] * sequences,
        remaining=[100] * sequences,
        seeds=list(range(sequences)),
        topics=[""] * sequences,
    )
    chosen = [next(pricer.price(batch, 101e9)).depth for pricer in (priced, half.pricer(half.load(), recorded))]
    # With all of HB it would draft.
    assert chosen == [PLAIN, PLAIN]
