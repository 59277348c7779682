"""Metrics of an emulated device, and what they are told: steps, flights, tokens and ends."""

from itertools import count, product

from prometheus_client import CollectorRegistry

from serving.clock import VirtualClock
from serving.cluster.node import Node, State
from serving.device.device_spec import DeviceSpec
from serving.flight import Flight, TokenNews
from serving.refusals import Reason, Refusal
from serving.scenario.faults import ANYWHERE
from serving.scenario.scenario import Scenario
from serving.scenario.slo import DEFAULT_CLASSES, parse_classes
from serving.telemetry.metrics import Metrics, ServedModel
from serving.types import NEVER, Request, StepRecord

CLASSES = parse_classes(DEFAULT_CLASSES, "classes")
SCENARIO = Scenario(mode="tau", tau=4, max_num_seqs=8)
EMULATED = DeviceSpec.of(SCENARIO, SCENARIO.members[0])
FIGURES = EMULATED.device_limits(EMULATED.load())
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
