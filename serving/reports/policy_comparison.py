"""`foreserve policies`: what each policy does to the same requests, on the same device, in virtual time.

Loads are shares of what the device serves, first come, first served, when all requests come at once. With several seeds
the same loads come in another order, of other lengths and topics; figures are means, and all policies have the same
requests with a seed, so that they are compared seed by seed.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from time import monotonic
from typing import Any, NamedTuple

import msgspec
import numpy as np

from serving.policies.modes import POLICIES as MODES
from serving.reports.mode_ramp import ramp_rows
from serving.reports.policy_leads import BY_SEED, SEEDS, leads
from serving.scenario.scenario import Scenario
from serving.scenario.slo import SloClass
from serving.scheduler.config import BATCHING, PREFILL
from serving.simulation.few_requests import few_judged
from serving.simulation.model_caveats import model_caveats, shares_of
from serving.simulation.node import Outcome
from serving.simulation.simulator import Simulator
from serving.topics.names import NAMES
from serving.types import Request, StepRecord

LOADS = (0.5, 0.9, 1.3)
PROMPT_TOKENS, OUTPUT_TOKENS = (30, 800), (20, 240)
# A batch that four to a topic would fill: topics compete for places, and experts for HB.
MAX_NUM_SEQS = 16
HOLD_S = 2.0
# Of the scenario's classes: a third in a hurry, and as many that nobody waits for.
SHARES = (0.3, 0.3, 0.4)
CHUNK_TOKENS = 256
# Of requests, as 99th percentiles are told.
SHARE = 0.99
# How far topics can be followed if nobody is in a hurry.
UNHURRIED, UNHURRIED_S = "batching, plain decoding, nobody in a hurry", 60.0
SMALL = "elmoe3d-4gb"  # where SD pays from a batch of five on only


class PolicyFigures(NamedTuple):
    """The figures of a run. Times in emulated seconds; rates and shares of all requests, `itl_p99_s` and hits of decode
    steps."""

    ttft_s: float
    ttft_p99_s: float
    tpot_s: float
    itl_p99_s: float
    goodput_per_s: float
    good_share: float
    j_per_token: float
    hit_rate: float
    sd_share: float
    mode_changes: float
    tokens_per_s: float


@dataclasses.dataclass(slots=True)
class ComparisonProgress:
    """How many of the `expected` runs are `done`."""

    expected: int
    done: int = 0
    began_s: float = dataclasses.field(default_factory=monotonic)

    @property
    def elapsed_s(self) -> float:
        """Real seconds since it began."""
        return monotonic() - self.began_s

    def __str__(self) -> str:
        return f"{self.elapsed_s:3.0f} s  {self.done} of {self.expected} runs"


def compare(
    scenario: Scenario,
    requests: int,
    seeds: Sequence[int],
    on_progress: Callable[[ComparisonProgress], None] = lambda progress: None,
) -> dict[str, Any]:
    """Return all figures, for tables; the scenario says which device."""
    runs, shares = [], []
    # All of a run's requests may come at once, and none is refused.
    base = dataclasses.replace(scenario, max_num_seqs=MAX_NUM_SEQS, max_queue=max(requests, scenario.max_queue))
    every = list(kinds(base))
    hardware_names = sorted({SMALL, scenario.hardware})
    # The ramps of a piece of hardware count as one.
    of_seed = sum(1 + len(LOADS) * len(policies) for _, _, policies in every)
    progress = ComparisonProgress(of_seed * len(seeds) + len(hardware_names))

    def done() -> None:
        progress.done += 1
        on_progress(progress)

    for kind, common, policies in every:
        rates = []
        for seed in seeds:
            outcomes, _ = run(common, mixed(requests, seed, rate_per_s=float("inf")))
            rates.append(requests / max(outcome.last_s for outcome in outcomes))
            done()
        for load in LOADS:
            rate_per_s = load * float(np.mean(rates))
            crowds = [mixed(requests, seed, rate_per_s, hurried=kind != UNHURRIED) for seed in seeds]
            for name, changes in policies.items():
                found = []
                for crowd in crowds:
                    outcomes, records = run(dataclasses.replace(common, **changes), crowd)
                    shares.append(shares_of(records))
                    found.append(figures(outcomes, records))
                    done()
                row = {"kind": kind, "load": load, "rate_per_s": rate_per_s, "policy": name}
                of_seeds = {SEEDS: list(seeds), BY_SEED: [each._asdict() for each in found]}
                runs.append(row | means(found)._asdict() | of_seeds)
    ramps = []
    for hardware in hardware_names:
        ramps += list(ramp_rows(scenario, hardware))
        done()
    caveats = [*model_caveats(scenario, shares), *_of_draws(len(runs), requests, seeds)]
    told = {"requests": requests, "seeds": list(seeds), "law": scenario.law, "caveats": caveats}
    return told | {"runs": runs, "leads": [lead._asdict() for lead in leads(runs)], "ramp": ramps}


def means(of_seeds: Sequence[PolicyFigures]) -> PolicyFigures:
    """Return the mean of each figure over seeds; of one seed its figures as they are."""
    if len(of_seeds) == 1:
        return of_seeds[0]
    return PolicyFigures(*(float(np.mean(each)) for each in zip(*of_seeds, strict=True)))


def _of_draws(runs: int, requests: int, seeds: Sequence[int]) -> Iterator[str]:
    """Yield what the requests, as they were drawn, cannot tell."""
    if few := few_judged([requests * len(seeds)] * runs, SHARE, "runs" if len(seeds) == 1 else "policies and loads"):
        yield few
    if len(seeds) == 1:
        yield (
            f"All runs but the ramps are of one seed ({seeds[0]}), which cannot tell whether policies differ by more "
            "than chance: several can, as --seeds 0 1 2."
        )


def kinds(base: Scenario) -> Iterator[tuple[str, Scenario, dict[str, dict[str, Any]]]]:
    """Each kind of policy: what is common to its runs, and what each policy changes, by its name."""
    batching: dict[str, dict[str, Any]] = {name: {"batching": name} for name in BATCHING}
    batching["topic-aware, held"] = {"batching": "topic-aware", "topic_hold_s": HOLD_S}
    yield "batching", dataclasses.replace(base, placement="topic"), batching
    plain = dataclasses.replace(base, placement="topic", mode="fixed-ar")
    yield "batching, plain decoding", plain, batching
    free = {name: batching[name] for name in ("fcfs", "topic-aware", "topic-aware, held")}
    yield UNHURRIED, dataclasses.replace(plain, patience_s=UNHURRIED_S), free
    modes: dict[str, dict[str, Any]] = {name: {"mode": name} for name in MODES}
    modes["cost, depth auto"] = {"mode": "cost", "depth": "auto"}
    modes["cost, by energy"] = {"mode": "cost", "objective": "energy"}
    yield "mode", base, modes
    prefill: dict[str, dict[str, Any]] = {name: {"prefill": name} for name in PREFILL}
    prefill[f"mixed, chunks of {CHUNK_TOKENS}"] = {"prefill_chunk": CHUNK_TOKENS}
    yield "prefill", base, prefill


def mixed(count: int, seed: int, rate_per_s: float, hurried: bool = True) -> list[Request]:
    """Draw requests of all topics and SLO classes, Poisson; of one seed the same ones at any rate, sooner or later.
    None has targets unless some are `hurried`.

    No `Workload` draws them: the figures that are published are of these.
    """
    rng = np.random.default_rng(seed)
    classes = list(Scenario().slo.values())
    at_s, requests = 0.0, []
    for i in range(count):
        at_s += rng.exponential(1.0) / rate_per_s
        slo: SloClass = classes[rng.choice(len(classes), p=SHARES)]
        topic = NAMES[rng.integers(len(NAMES))]
        prompt, output = int(rng.integers(*PROMPT_TOKENS)), int(rng.integers(*OUTPUT_TOKENS))
        request = Request(str(i), at_s, prompt, output, seed=i, topic=topic, priority=slo.priority)
        targets = {"ttft_s": slo.ttft_s, "tpot_s": slo.tpot_s} if hurried else {}
        requests.append(msgspec.structs.replace(request, **targets))
    return requests


def run(scenario: Scenario, requests: list[Request]) -> tuple[list[Outcome], list[StepRecord]]:
    """Run a scenario's devices, fed with the requests."""
    return Simulator(scenario).serve(requests)


def figures(outcomes: list[Outcome], records: list[StepRecord]) -> PolicyFigures:
    """Return the figures of a run."""
    ttft = np.array([each.ttft_s for each in outcomes])
    gaps = [later - one for each in outcomes for one, later in pairwise(each.tokens_s) if later > one]
    decoding = [record for record in records if record.phase == "decode"]
    tokens = sum(each.tokens for each in outcomes)
    last_s = max(each.last_s for each in outcomes)
    good = sum(each.good for each in outcomes)
    return PolicyFigures(
        ttft_s=float(ttft.mean()),
        ttft_p99_s=float(np.percentile(ttft, 99)),
        tpot_s=float(np.mean([each.tpot_s for each in outcomes])),
        itl_p99_s=float(np.percentile(gaps, 99)),
        goodput_per_s=good / last_s,
        good_share=good / len(outcomes),
        j_per_token=sum(sum(record.energy_j) for record in records) / tokens,
        hit_rate=sum(record.expert_hits for record in decoding) / sum(record.expert_lookups for record in decoding),
        sd_share=sum(record.steps for record in decoding if record.mode == "sd")
        / sum(record.steps for record in decoding),
        mode_changes=sum(one.mode != other.mode for one, other in pairwise(decoding)),
        tokens_per_s=tokens / last_s,
    )
