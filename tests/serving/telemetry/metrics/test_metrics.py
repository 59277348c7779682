"""Do the metrics say what steps and requests did, in as few series as promised?"""

import dataclasses
from collections import Counter
from itertools import count, pairwise, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client import Histogram as Reference
from prometheus_client.parser import text_string_to_metric_families

from device_model.condition import Condition
from serving.clock import VirtualClock, WallClock
from serving.cluster.node import Node, State
from serving.device.device_spec import DeviceSpec
from serving.flight import Flight, TokenNews
from serving.refusals import Reason, Refusal
from serving.reports.policy_comparison import mixed, run
from serving.scenario.faults import ANYWHERE
from serving.scenario.scenario import Scenario
from serving.scenario.slo import DEFAULT_CLASSES, OWN_TARGETS, parse_classes
from serving.telemetry import metrics as metrics_package
from serving.telemetry.metrics import Metrics, ServedModel
from serving.telemetry.metrics.families import Family, Histogram
from serving.telemetry.metrics.service import NO_TOPIC
from serving.telemetry.metrics.window import Window
from serving.types import NEVER, Request, StepRecord

CLASSES = parse_classes(DEFAULT_CLASSES, "classes")
SCENARIO = Scenario(mode="tau", tau=4, max_num_seqs=8)
EMULATED = DeviceSpec.of(SCENARIO, SCENARIO.members[0])
FIGURES = EMULATED.device_limits(EMULATED.load())
README = Path(metrics_package.__file__).parent / "README.md"
IDLE_W = EMULATED.load().device.static_w


NUMBERS = count()


class Clock(VirtualClock):
    """One that metrics can be told the time by."""


def node(index: int, state: State = State.SERVING) -> Node:
    return Node(index, EMULATED, FIGURES, None, None, None, state)


def measured(devices: int = 1, clock: VirtualClock | None = None) -> tuple[Metrics, CollectorRegistry]:
    registry = CollectorRegistry()
    metrics = Metrics(registry, ServedModel("m", 4096, 16, CLASSES), clock or Clock())
    for index in range(devices):
        metrics.on_change(node(index))
    return metrics, registry


def record(device: int = 0, start_s: float = 0.0, latency_s: float = 0.01, **more: object) -> StepRecord:
    given = {
        "mode": "ar", "phase": "decode", "batch": 2, "new_tokens": 2, "energy_j": (0.01,) * 5,
        "traffic_bytes": (1e6, 2e6), "expert_lookups": 10.0, "expert_hits": 4.0, "late_real_s": 1e-5, "underruns": 0,
        "waiting": 0, "kv_tokens": 100, "preemptions": 0, "slips": 0, "reason": "below tau", "target_s": latency_s,
    }  # fmt: skip
    return StepRecord(device=device, start_s=start_s, latency_s=latency_s, **(given | more))  # type: ignore[arg-type]


def flight(slo: str = "", ttft_s: float = NEVER, tpot_s: float = NEVER, topic: str = "", device: int = 0) -> Flight:
    return Flight(
        None, Request(f"r-{next(NUMBERS)}", 1.0, 10, 8, topic=topic, ttft_s=ttft_s, tpot_s=tpot_s), device, slo
    )


def release(metrics: Metrics, flight: Flight, tokens: int, gap_s: float | None) -> None:
    """Some tokens of one request."""
    gaps_s, first = ({}, [flight]) if gap_s is None else ({gap_s: 1}, [])
    metrics.on_tokens(TokenNews(flight.device, tokens, 0, gaps_s, first))


def finish(metrics: Metrics, flight: Flight, reason: str) -> None:
    """A request ends."""
    flight.finish = reason
    metrics.on_finish(flight)


@given(values=st.lists(st.floats(0, 20), max_size=50))
def test_a_tally_counts_as_the_librarys_histogram_does(values: list[float]) -> None:
    bounds, registry = (0.001, 0.5, 1.0, 10.0), CollectorRegistry()
    theirs, ours = Reference("h", "h", buckets=bounds, registry=registry), Histogram(bounds)
    for value in [*values, *bounds]:
        theirs.observe(value)
        ours.observe(value)
    family = next(iter(registry.collect()))
    buckets = [sample.value for sample in family.samples if sample.name == "h_bucket"]
    assert np.cumsum(ours.counts).tolist() == buckets
    assert registry.get_sample_value("h_sum") == pytest.approx(ours.sum)


def test_all_that_steps_did_is_in_the_totals() -> None:
    metrics, registry = measured()
    _, records = run(SCENARIO, mixed(30, seed=3, rate_per_s=1.5))
    for each in records:
        metrics.on_step(each)

    def value(name: str, **labels: str) -> float:
        found = registry.get_sample_value(f"foreserve_{name}", {"device": "0"} | labels)
        assert found is not None, name
        return found

    stages = ("prefill", "mixed", "decode", "draft", "verify", "update")
    assert sum(value("stage_seconds_total", stage=stage) for stage in stages) == pytest.approx(
        sum(each.latency_s for each in records)
    )
    assert value("busy_seconds_total") == pytest.approx(sum(each.latency_s for each in records))
    assert value("energy_joules_total", component="hb") == pytest.approx(sum(each.energy_j[2] for each in records))
    assert value("tier_bytes_total", tier="lpddr") == pytest.approx(sum(each.traffic_bytes[1] for each in records))
    assert value("accepted_length_sum") == sum(each.accepted for each in records)
    decoding = [each.mode for each in records if each.phase != "prefill"]
    changes = sum(one != other for one, other in pairwise(decoding))
    switches = metrics.steps.switches.values
    assert sum(switches.values()) == changes > 0
    assert {labels[1] for labels in switches} == {"sd", "ar"}
    assert value("mode", mode=decoding[-1]) == 1


def test_swaps_are_counted_with_what_they_took() -> None:
    metrics, registry = measured()
    names = [f"foreserve_expert_{name}_total" for name in ("swaps", "swap_seconds", "swap_joules")]
    assert [registry.get_sample_value(name, {"device": "0"}) for name in names] == [0, 0, 0]
    following = dataclasses.replace(SCENARIO, placement="topic", swap="always", mode="fixed-ar")
    _, records = run(following, mixed(30, seed=3, rate_per_s=15.0))
    for each in records:
        metrics.on_step(each)
    counted = [sum(getattr(each, name) for each in records) for name in ("swaps", "swap_s", "swap_j")]
    assert min(counted) > 0
    assert [registry.get_sample_value(name, {"device": "0"}) for name in names] == pytest.approx(counted)


def test_accepted_tokens_by_position_add_up() -> None:
    metrics, registry = measured()
    metrics.on_step(record(mode="sd", drafts=6, drafted=18, accepted=8, draft_s=0.004, accepted_by=[2, 1, 2, 1]))

    def at(position: int) -> float | None:
        labels = {"model_name": "m", "engine": "0", "position": str(position)}
        return registry.get_sample_value("vllm:spec_decode_num_accepted_tokens_per_pos_total", labels)

    assert [at(position) for position in range(3)] == [4, 3, 1]


def test_prompts_come_from_where_they_come_from_and_no_source_takes_back_what_it_gave() -> None:
    metrics, registry = measured()
    labels = {"model_name": "m", "engine": "0"}

    def value(name: str, **more: str) -> float | None:
        return registry.get_sample_value(f"vllm:prompt_tokens{name}_total", labels | more)

    # Of another prompt, whose client went away before its first token.
    metrics.on_step(record(cached_tokens=16))
    for own, cached in ((10, 10), (6, 16), (0, 16)):
        request = flight()
        request.cached = own
        release(metrics, request, 1, None)
        assert value("_cached") == value("_by_source", source="local_cache_hit") == cached
        assert value("_cached_by_source", source="device") == cached
        assert (value("_by_source", source="local_compute") or 0) + cached == value("")


def test_a_kv_cache_is_never_more_than_full() -> None:
    metrics, registry = measured()
    metrics.on_begin(flight())
    metrics.on_step(record(kv_tokens=2 * FIGURES.kv_capacity_tokens))
    assert registry.get_sample_value("vllm:kv_cache_usage_perc", {"model_name": "m", "engine": "0"}) == 1


def test_what_is_rare_is_counted_from_nought() -> None:
    metrics, registry = measured(devices=2)
    rare = [
        ("foreserve_actor_restarts_total", {"actor": "token source"}),
        ("foreserve_actor_restarts_total", {"actor": "device 1"}),
        ("foreserve_faults_total", {"device": "1", "kind": "lost"}),
        ("foreserve_rejections_total", {"slo_class": "batch", "reason": "ttft"}),
        ("foreserve_rejections_total", {"slo_class": "none", "reason": "tokens_per_min"}),
    ]
    assert [registry.get_sample_value(*each) for each in rare] == [0] * len(rare)
    metrics.on_restart("device 1")
    metrics.on_change(node(1))
    assert registry.get_sample_value(*rare[1]) == 1


def test_of_a_class_that_is_turned_away_as_a_whole_there_are_requests_to_divide_by() -> None:
    metrics, registry = measured()
    metrics.on_refusal(Refusal(Reason.TTFT, "", slo=OWN_TARGETS), None)
    ended = {"slo_class": OWN_TARGETS, "topic": NO_TOPIC, "met": "true"}
    assert registry.get_sample_value("foreserve_slo_requests_total", ended) == 0
    assert registry.get_sample_value("foreserve_rejections_total", {"slo_class": OWN_TARGETS, "reason": "ttft"}) == 1


def test_of_a_topic_the_first_miss_is_seen_by_a_rate() -> None:
    metrics, registry = measured()
    metrics.on_begin(flight("interactive", 0.5, topic="law"))
    metrics.on_begin(flight(ttft_s=9.0))
    begun = [("interactive", "law"), (OWN_TARGETS, NO_TOPIC)]
    for (slo, topic), met in product(begun, ("true", "false")):
        ended = {"slo_class": slo, "topic": topic, "met": met}
        assert registry.get_sample_value("foreserve_slo_requests_total", ended) == 0
        assert registry.get_sample_value("foreserve_slo_tokens_total", {"slo_class": slo, "met": met}) == 0
    assert registry.get_sample_value("foreserve_slo_misses_total", {"slo_class": OWN_TARGETS, "target": "ttft"}) == 0


def test_attainment_is_joint_and_by_class_and_topic() -> None:
    metrics, registry = measured()
    good, late, slow = (flight("interactive", 0.5, 0.05, "math") for _ in range(3))
    for each, first_s, last_s in ((good, 1.4, 1.45), (late, 1.6, 1.65), (slow, 1.4, 2.0)):
        each.take([1], first_s)
        each.take([2, 3], last_s)
        finish(metrics, each, "stop")
    lost = flight("interactive", 0.5, topic="cs")
    metrics.on_begin(lost)
    finish(metrics, lost, "error")
    never, gone, free = flight("interactive", 0.5), flight("interactive", 0.5), flight()
    finish(metrics, never, "error")
    finish(metrics, gone, "abort")
    finish(metrics, free, "length")
    own = flight(ttft_s=9.0)
    metrics.on_begin(own)
    finish(metrics, own, "error")

    def counted(slo: str, met: str, topic: str = "math") -> float | None:
        labels = {"slo_class": slo, "topic": topic, "met": met}
        return registry.get_sample_value("foreserve_slo_requests_total", labels)

    assert (counted("interactive", "true"), counted("interactive", "false")) == (1, 2)
    assert (counted("interactive", "true", "cs"), counted("interactive", "false", "cs")) == (0, 1)
    assert counted("interactive", "false", "unknown") == 1
    assert counted("none", "true", "unknown") == 1
    assert (counted("custom", "true", "unknown"), counted("custom", "false", "unknown")) == (0, 1)
    misses = metrics.service.misses.values
    assert (misses["interactive", "ttft"], misses["interactive", "tpot"]) == (3, 1)


def test_the_queue_is_looked_at_when_somebody_scrapes() -> None:
    clock = Clock()
    metrics, registry = measured(clock=clock)
    waiting, begun = flight("batch", topic="law"), flight()
    begun.started_s = 1.0
    clock.until(4.0)
    for each in (waiting, begun):
        metrics.on_begin(each)
    labels = {"device": "0", "topic": "law", "slo_class": "batch"}
    assert registry.get_sample_value("foreserve_queue_requests", labels) == 1
    assert registry.get_sample_value("foreserve_queue_oldest_seconds", {"device": "0"}) == 3
    waiting.started_s = 2.0
    assert registry.get_sample_value("foreserve_queue_requests", labels) == 0


def test_an_idle_device_draws_static_power_and_no_step_is_counted_twice() -> None:
    clock = Clock()
    metrics, registry = measured(clock=clock)
    clock.until(2.0)
    assert registry.get_sample_value("foreserve_idle_energy_joules_total", {"device": "0"}) == pytest.approx(2 * IDLE_W)
    request = flight()
    metrics.on_begin(request)
    metrics.on_step(record(start_s=3.0, latency_s=0.5))
    metrics.on_step(record(start_s=3.5, latency_s=0.5))
    clock.until(4.2)
    assert metrics.energy_j(0) == pytest.approx(3 * IDLE_W + 0.1)
    assert registry.get_sample_value("foreserve_power_watts", {"device": "0"}) == pytest.approx(0.1)
    finish(metrics, request, "stop")
    clock.until(5.0)
    assert metrics.energy_j(0) == pytest.approx(4 * IDLE_W + 0.1)
    clock.until(9.0)
    assert registry.get_sample_value("foreserve_power_watts", {"device": "0"}) == pytest.approx(IDLE_W)


@given(gaps=st.lists(st.tuples(st.floats(0, 2), st.floats(0.001, 0.5)), min_size=1, max_size=40))
def test_a_window_has_the_last_second_and_never_more_than_all_of_it(gaps: list[tuple[float, float]]) -> None:
    window, at_s = Window(), 0.0
    for pause_s, latency_s in gaps:
        window.add(record(start_s=at_s + pause_s, latency_s=latency_s))
        at_s += pause_s + latency_s
        assert 0 <= window.busy_share(at_s) <= 1
        assert window.power_w(at_s, IDLE_W) > 0
    assert window.busy_share(at_s + 5) == pytest.approx(0, abs=1e-9)
    assert window.power_w(at_s + 5, IDLE_W) == pytest.approx(IDLE_W)


@pytest.mark.parametrize("every_s", [0.02, 0.5, 2.0])
def test_a_window_between_sparse_steps_is_mostly_idle(every_s: float) -> None:
    """A step of 10 ms, with 1 J and 2 MB from the external memory, now and then."""
    window, seen = Window(), list[tuple[float, float]]()
    for number in range(1, 400):
        window.add(record(start_s=number * every_s, latency_s=0.01, energy_j=(1.0, 0.0, 0.0, 0.0, 0.0)))
        looks_s = [number * every_s + 0.01 + share * (every_s - 0.01) for share in (0.0, 0.25, 0.5, 0.75)]
        if number * every_s > 2:
            seen += [(window.power_w(at_s, IDLE_W), window.busy_share(at_s)) for at_s in looks_s]
    for power_w, busy in seen:
        assert busy <= 0.01 * (1 / every_s + 1) * (1 + 1e-9)
        assert power_w == pytest.approx(busy / 0.01 + IDLE_W * (1 - busy))


def test_memory_in_use_is_no_more_than_there_is_and_grows_with_the_kv_cache() -> None:
    metrics, registry = measured()
    metrics.on_begin(flight())
    metrics.on_step(record(kv_tokens=5_000))

    def used(tier: str, kind: str) -> float:
        labels = {"device": "0", "tier": tier, "kind": kind}
        return registry.get_sample_value("foreserve_tier_used_bytes", labels) or 0.0

    small = used("hb", "kv")
    metrics.on_step(record(kv_tokens=10_000))
    assert used("hb", "kv") == pytest.approx(2 * small)
    assert small > 0
    for tier in ("hb", "lpddr"):
        capacity = registry.get_sample_value("foreserve_tier_capacity_bytes", {"device": "0", "tier": tier})
        assert sum(used(tier, kind) for kind in ("static", "kv", "draft", "experts")) <= (capacity or 0) * (1 + 1e-9)


def test_tiers_have_the_names_that_the_hardware_gives_them() -> None:
    metrics, registry = measured(0)
    spec = EMULATED._replace(system="stratum", hardware="stratum-s", model="olmoe-1b-7b", draft="")
    metrics.on_change(node(0))
    metrics.on_change(Node(1, spec, FIGURES, None, None, None, State.SERVING))
    for device in (0, 1):
        metrics.on_step(record(device=device, energy_j=(1.0, 2.0, 3.0, 4.0, 5.0)))

    def named(metric: str, label: str, device: int) -> dict[str, float]:
        samples = [sample for family in registry.collect() for sample in family.samples if sample.name == metric]
        return {s.labels[label]: s.value for s in samples if s.labels["device"] == str(device)}

    assert named("foreserve_tier_bytes_total", "tier", 0) == {"hb": 1e6, "lpddr": 2e6}
    assert named("foreserve_tier_bytes_total", "tier", 1) == {"mono3d": 1e6, "interposer": 2e6}
    assert named("foreserve_energy_joules_total", "component", 0) == dict(compute=1, lpddr=2, hb=3, comm=4, static=5)
    assert named("foreserve_energy_joules_total", "component", 1) == dict(
        compute=1, interposer=2, mono3d=3, comm=4, static=5
    )
    capacities = named("foreserve_tier_capacity_bytes", "tier", 1)
    assert capacities == {"mono3d": 32 * 2**30, "interposer": 0}
    assert set(named("foreserve_tier_used_bytes", "tier", 1)) == {"mono3d"}


def test_a_device_that_is_gone_has_no_power_and_keeps_its_counters() -> None:
    metrics, registry = measured(devices=2)
    metrics.on_step(record(device=1))
    metrics.on_change(node(1, State.GONE))
    metrics.on_step(record(device=1))
    assert registry.get_sample_value("foreserve_power_watts", {"device": "1"}) is None
    assert registry.get_sample_value("foreserve_busy_seconds_total", {"device": "1"}) == 0.02
    assert registry.get_sample_value("foreserve_tier_capacity_bytes", {"device": "1", "tier": "hb"}) == 0
    names = "num_requests_running", "num_requests_waiting", "num_requests_waiting_by_reason", "kv_cache_usage_perc"
    levels = {f"vllm:{name}" for name in (*names, "cache_config_info")}
    there = {(s.name, s.labels["engine"]) for f in registry.collect() if f.name in levels for s in f.samples}
    assert there == {(name, "0") for name in levels}
    assert metrics.recent_load.of_all().keys() == {0}
    assert registry.get_sample_value("vllm:generation_tokens_total", {"model_name": "m", "engine": "1"}) == 0


def test_idle_joules_are_those_of_the_condition_in_which_they_were_drawn_until_the_device_is_gone() -> None:
    clock = Clock()
    metrics, registry = measured(devices=2, clock=clock)
    half = EMULATED.in_condition(Condition(hb_share=0.5))
    smaller = half.device_limits(half.load())
    assert smaller.static_w < 0.9 * IDLE_W
    clock.until(2.0)
    metrics.on_change(dataclasses.replace(node(1), spec=half, device_limits=smaller))
    clock.until(5.0)
    metrics.on_change(dataclasses.replace(node(1, State.GONE), spec=half, device_limits=smaller))
    clock.until(9.0)
    drawn_j = registry.get_sample_value("foreserve_idle_energy_joules_total", {"device": "1"})
    assert drawn_j == pytest.approx(2 * IDLE_W + 3 * smaller.static_w)


# Series of a device, and of the rest, that all which can happen leaves behind at most: buckets count.
MOST_A_DEVICE, MOST_IN_ALL = 845, 130


def everything(metrics: Metrics, devices: int) -> None:
    """All modes, phases, reasons, classes, topics, faults and ends that there are."""
    for device in range(devices):
        all_steps(metrics, device)
        for kind in (*ANYWHERE, "hb", "lpddr"):
            metrics.on_fault(device, kind, True)
        for state in set(State) - {State.GONE}:
            metrics.on_change(node(device, state))
    waiting = all_flights(devices)
    for each in waiting:
        metrics.on_begin(each)
        each.take([1], 2.0)
        release(metrics, each, 1, None)
    for each, end in product(waiting, ("stop", "length", "abort", "error", "repetition")):
        finish(metrics, each, end)
    for each in all_flights(devices):
        metrics.on_begin(each)
    for slo, reason in product((*CLASSES, ""), Reason):
        metrics.on_refusal(Refusal(reason, "", slo=slo), None)


def all_steps(metrics: Metrics, device: int) -> None:
    reasons = ["as good", "more tokens per second", "fixed", "no draft", "nothing decodes"]
    # A device has a tau that was named, or one of its own: "drafting is faster", and so on.
    for reason in ("below tau", "at least tau"):
        reasons += [reason, f"{reason}, too briefly"]
    for mode, phase, reason in product(("ar", "sd"), ("prefill", "mixed", "decode"), reasons):
        drafts = {"drafts": 2, "accepted_by": [1] * 11} if mode == "sd" else {}
        moved = {"spilled_tokens": 1, "fetched_tokens": 1, "swaps": 1, "moved_s": 0.001}
        metrics.on_step(record(device, mode=mode, phase=phase, reason=reason, **drafts, **moved))


def all_flights(devices: int) -> list[Flight]:
    topics = ("legal", "humanities", "cs", "science", "math", "logic", "other", "")
    return [flight(*what) for what in product((*CLASSES, ""), (NEVER,), (NEVER,), topics, range(devices))]


def series_of(registry: CollectorRegistry) -> Counter[str]:
    text = generate_latest(registry).decode()
    return Counter(family.name for family in text_string_to_metric_families(text) for _ in family.samples)


def test_cardinality_is_bounded_and_every_metric_has_help_and_a_base_unit() -> None:
    counts = {}
    for devices in (1, 3):
        metrics, registry = measured(devices)
        everything(metrics, devices)
        counts[devices] = sum(series_of(registry).values())
    assert (counts[3] - counts[1]) / 2 <= MOST_A_DEVICE
    assert counts[1] <= MOST_A_DEVICE + MOST_IN_ALL
    for family in registry.collect():
        assert len(family.documentation) > 5, family.name
        assert not any(unit in family.name for unit in ("_ms", "_mj", "_gb", "_mib", "percent")), family.name


def test_a_scrape_writes_what_the_library_would() -> None:
    metrics, registry = measured(2)
    everything(metrics, 2)
    metrics.devices.device.values[("7", 'a "quoted"\\ name\n', "gone")] = 1

    def read(text: str) -> dict[str, tuple[str, str, dict[tuple[str, frozenset[tuple[str, str]]], float]]]:
        found = {}
        for family in text_string_to_metric_families(text):
            values = {(sample.name, frozenset(sample.labels.items())): sample.value for sample in family.samples}
            found[family.name] = family.type, family.documentation, values
        return found

    written = "".join(family.written() for family in registry.collect() if isinstance(family, Family))
    theirs = read(generate_latest(registry).decode())
    # Two read of a clock.
    for name in ("foreserve_emulated_seconds", "foreserve_idle_energy_joules", "foreserve_power_watts"):
        assert theirs.pop(name)[:2] == read(written)[name][:2]
    assert {name: each for name, each in read(written).items() if name in theirs} == theirs


def test_the_clock_is_a_metric() -> None:
    registry = CollectorRegistry()
    clock = WallClock(0.0, speed=2.0)
    Metrics(registry, ServedModel("m", 4096), clock)
    assert registry.get_sample_value("foreserve_speed") == 2
    before_s = clock.now()
    told_s = registry.get_sample_value("foreserve_emulated_seconds_total")
    assert told_s is not None and before_s <= told_s <= clock.now()


def test_the_readme_has_each_metric_and_its_labels() -> None:
    _, registry = measured()
    table = {line.split("`")[1]: line for line in README.read_text(encoding="utf-8").splitlines() if line[:3] == "| `"}
    metrics = {f"{f.name}_total" if f.type == "counter" else f.name: f for f in registry.collect()}
    assert set(table) == set(metrics) | {"foreserve_info"}
    for name, family in metrics.items():
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        assert labels <= set(table[name].split("|")[2].replace(" ", "").split(",")) | {""}, name
        assert family.documentation in table[name]


def test_looking_at_a_device_that_works_does_not_make_it_idle() -> None:
    clock, request = Clock(), flight()
    metrics, _ = measured(clock=clock)
    metrics.on_begin(request)
    for at_s in (0.1, 0.2, 0.3):  # within its first step, of which nobody knows yet
        clock.until(at_s)
        assert metrics.energy_j(0) == 0
    metrics.on_step(record(start_s=0.05, latency_s=0.3))
    assert metrics.energy_j(0) == pytest.approx(0.05 * IDLE_W + 0.05)
    finish(metrics, request, "stop")
    clock.until(1.35)
    assert metrics.energy_j(0) == pytest.approx(1.05 * IDLE_W + 0.05)


def test_what_worked_before_a_stall_or_a_pause_is_no_longer_seen_by_meters() -> None:
    clock = Clock()
    metrics, _ = measured(clock=clock)
    request, devices = flight(), metrics.devices
    metrics.on_begin(request)
    metrics.on_step(record(latency_s=1.0))
    clock.until(1.5)
    assert devices.busy_share(0) == pytest.approx(1)
    metrics.on_fault(0, "stall", True)
    for at_s, begins in ((4.0, True), (5.0, False)):  # In the end its next step is under way.
        clock.until(at_s)
        if not begins:
            metrics.on_fault(0, "stall", False)
        assert devices.busy_share(0) == 0 and devices.power_w(0) == pytest.approx(IDLE_W)
    metrics.on_step(record(start_s=5.0, latency_s=0.25))
    assert devices.busy_share(0) == pytest.approx(0.25)
    finish(metrics, request, "stop")
    clock.until(9.0)
    metrics.energy_j(0)
    metrics.on_begin(flight())
    clock.until(9.5)
    assert devices.busy_share(0) == 0


def test_a_tier_that_was_throttled_a_moment_ago_is_no_more_than_all_in_use() -> None:
    metrics, _ = measured()
    metrics.on_begin(flight())
    used_bytes = 0.8 * EMULATED.load().device.ext.bytes_per_s
    metrics.on_step(record(latency_s=1.0, traffic_bytes=(0.0, used_bytes)))
    assert metrics.devices.ext_share(0) == pytest.approx(0.8)
    slow = EMULATED.in_condition(Condition(ext_share=0.4))
    metrics.on_change(dataclasses.replace(node(0), spec=slow, device_limits=slow.device_limits(slow.load())))
    assert metrics.devices.ext_share(0) == 1


def test_requests_that_a_device_has_not_looked_at_yet_wait() -> None:
    metrics, registry = measured()
    begun = flight()
    begun.started_s = 1.0
    flights = [flight(), flight(), begun]
    for each in flights:
        metrics.on_begin(each)
    labels = {"model_name": "m", "engine": "0"}
    assert registry.get_sample_value("vllm:num_requests_waiting", labels) == 2
    assert registry.get_sample_value("vllm:num_requests_running", labels) == 1
    for each in flights:
        finish(metrics, each, "abort")
    assert registry.get_sample_value("vllm:num_requests_waiting", labels) == 0


def test_a_lost_device_draws_and_holds_nothing_until_it_is_back() -> None:
    clock = Clock()
    metrics, registry = measured(devices=2, clock=clock)
    clock.until(1.0)
    metrics.on_change(node(1, State.LOST))
    clock.until(3.0)
    assert metrics.energy_j(1) == pytest.approx(IDLE_W)
    assert registry.get_sample_value("foreserve_power_watts", {"device": "1"}) == 0
    held = {"device": "1", "tier": "hb", "kind": "experts"}
    assert registry.get_sample_value("foreserve_tier_used_bytes", held) == 0
    metrics.on_change(node(1))
    clock.until(4.0)
    assert metrics.energy_j(1) == pytest.approx(2 * IDLE_W)
    assert (registry.get_sample_value("foreserve_tier_used_bytes", held) or 0) > 0
