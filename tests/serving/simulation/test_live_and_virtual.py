"""Do a live engine and a virtual one, to which the same things happen at the same instants, agree to the last digit?"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import NamedTuple

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from device_model.condition import Condition
from serving.clock import VirtualClock
from serving.device.device_spec import DeviceSpec
from serving.device.engine import Engine
from serving.device.live_driver import LiveDriver
from serving.device.scheduler_config import limits_of, rules_of
from serving.device.slow_tier import LEASE_S, SlowTier
from serving.device.token_buffer import TokenBuffer
from serving.policies.step_options import StepOptions
from serving.scenario.scenario import Scenario
from serving.scheduler.scheduler import Scheduler
from serving.simulation.node import VirtualNode
from serving.simulation.recorded_texts import recorded
from serving.simulation.simulator import TierShare
from serving.types import NEVER, Chunk, Release, Request, StepRecord
from tests.examples import examples


class Happening(NamedTuple):
    """What happens `after_s` the one before: a request comes, a condition changes, or the device stands still."""

    after_s: float
    what: Request | Condition | float


@dataclass(slots=True)
class Result:
    """The instants of each request's tokens, and all steps."""

    tokens_s: dict[str, list[float]] = field(default_factory=dict)
    records: list[StepRecord] = field(default_factory=list)


@cache
def loaded(spec: DeviceSpec) -> StepOptions:
    """A device's step options: they cache prices and keep no other state."""
    return spec.load()


class Device:
    """The parts of a device that live and virtual time have alike; each run has its own."""

    def __init__(self, scenario: Scenario, lease_s: float) -> None:
        self._scenario, self.lease_s = scenario, lease_s
        self.spec = DeviceSpec.of(scenario, scenario.members[0])
        self.options = loaded(self.spec)
        self.device_limits = self.spec.device_limits(self.options)
        self.limits, self.rules = limits_of(scenario, self.device_limits), rules_of(scenario, self.device_limits)
        self.tier = TierShare(SlowTier(self.device_limits.ext_bytes_per_s))
        self.pricer = self.spec.pricer(self.options, recorded)
        self._stalled_until_s = 0.0

    def change(self, condition: Condition) -> None:
        """Bring pricer, tier and limits into another condition."""
        self.spec = self.spec.in_condition(condition)
        self.options = loaded(self.spec)
        self.limits = limits_of(self._scenario, self.spec.device_limits(self.options))
        self.tier.share = condition.ext_share
        self.pricer = self.spec.repriced(self.pricer, self.options, recorded)

    def stall(self, until_s: float) -> float:
        """Return until when it stands still: overlapping stalls do not add up."""
        self._stalled_until_s = max(self._stalled_until_s, until_s)
        return self._stalled_until_s


class ScriptedClock(VirtualClock):
    """A virtual clock on whose way things happen: whoever waits for a later instant is told so on the way there."""

    def __init__(self, script: list[tuple[float, Callable[[float], None]]]) -> None:
        super().__init__()
        self._script = script

    def until(self, at_s: float) -> float:
        # Of what is at the same instant, a step's end comes first.
        if self._script and self._script[0][0] < at_s:
            return self._happen() - at_s
        return super().until(at_s)

    def wait(self, at_s: float) -> None:
        if self._script and self._script[0][0] <= at_s:
            self._happen()
        else:
            assert at_s < NEVER, "it would wait for ever"
            super().until(at_s)

    def _happen(self) -> float:
        """Let all happen that is due next; return its instant."""
        at_s = self._script[0][0]
        super().until(at_s)
        while self._script and self._script[0][0] == at_s:
            self._script.pop(0)[1](at_s)
        return at_s


class Live:
    """The device as a server runs it: by a clock that something may interrupt, and with tokens in buffers."""

    def __init__(self, device: Device, happenings: list[tuple[float, Happening]]) -> None:
        self.result, self._device = Result(), device
        self._scheduler, self._tokens = Scheduler(device.limits, device.rules), TokenBuffer()
        clock = ScriptedClock([(at_s, partial(self._happen, each.what)) for at_s, each in happenings])
        engine = Engine(0, self._scheduler, device.pricer, device.tier, self._tokens, self._note)
        engine.lease_s = device.lease_s
        self._driver = LiveDriver(engine, clock)
        self._owed = sum(each.what.max_tokens for _, each in happenings if isinstance(each.what, Request))

    def run(self) -> Result:
        while self._owed:
            self._driver.cycle()
        return self.result

    def _happen(self, what: Request | Condition | float, at_s: float) -> None:
        if isinstance(what, Request):
            self._tokens.open(what.id)
            last = what.max_tokens - 1
            self._driver.push([Chunk(what.id, i, [i], 1 if i == last else None) for i in range(what.max_tokens)])
            self._scheduler.submit(msgspec.structs.replace(what, arrival_s=at_s))
            self._driver.poke()
        elif isinstance(what, Condition):
            self._device.change(what)
            self._driver.engine.pricer = self._device.pricer
            self._scheduler.limit(self._device.limits)
            self._driver.change(at_s)
        else:
            self._driver.stall(self._device.stall(at_s + what))

    def _note(self, release: Release) -> None:
        assert release.record is not None
        self.result.records.append(release.record)
        for chunk in release.chunks:
            self.result.tokens_s.setdefault(chunk.request_id, []).extend([release.at_s] * len(chunk.tokens))
            self._owed -= len(chunk.tokens)


def virtual(device: Device, happenings: list[tuple[float, Happening]], leaps: bool) -> Result:
    """What the device does in virtual time."""
    node = VirtualNode(0, device.pricer, device.tier, device.limits, device.rules, leaps)
    node.engine.lease_s = device.lease_s
    outcomes = []
    for at_s, (_, what) in happenings:
        node.run(at_s)
        if isinstance(what, Request):
            outcomes.append(node.submit(msgspec.structs.replace(what, arrival_s=at_s)))
        elif isinstance(what, Condition):
            device.change(what)
            node.degrade(at_s, device.pricer, device.limits)
        else:
            node.stall(at_s, device.stall(at_s + what))
    node.run(NEVER)
    return Result({outcome.request.id: outcome.tokens_s for outcome in outcomes}, node.records)


FEW, MANY = 2, 40
MOST = 14
"""Happenings in a run: fewer than `MANY`."""

# From a part of a step to many steps; now and then at once.
gaps_s = st.sampled_from([0.0, 0.003, 0.03, 0.1, 0.1, 0.3, 2.0]).flatmap(lambda most: st.floats(most / 3, most))
shares = st.sampled_from([1.0, 0.7, 0.05])
conditions = st.builds(Condition, ext_share=shares, hb_share=st.sampled_from([1.0, 0.8]), clock_share=shares)
requests = st.builds(
    Request,
    id=st.just(""),
    arrival_s=st.just(0.0),
    prompt_tokens=st.sampled_from([1, 40, 700]),
    max_tokens=st.sampled_from([1, 7, 60, 90]),
    seed=st.integers(0, 99),
    topic=st.sampled_from(["", "math", "legal"]),
)
stalls_s = st.floats(0.001, 1.0)
happenings = st.lists(
    st.builds(Happening, gaps_s, st.one_of(requests, conditions, stalls_s)), min_size=MOST // 2, max_size=MOST
)


def numbered(drawn: list[Happening]) -> list[tuple[float, Happening]]:
    """What happens with its instants; each request with an id of its own."""
    at_s, script = 0.0, []
    for number, each in enumerate(drawn):
        at_s += each.after_s
        what = msgspec.structs.replace(each.what, id=str(number)) if isinstance(each.what, Request) else each.what
        script.append((at_s, each._replace(what=what)))
    return script


def comparable(records: list[StepRecord], full: bool) -> list[StepRecord]:
    """Steps without what only real time has: late news, and lateness. In virtual time a `full` batch is not planned
    anew for who comes, so what waits and what is held is what it was when the batch was planned."""
    held = {"waiting": 0, "kv_tokens": 0} if full else {}
    return [msgspec.structs.replace(record, slips=0, late_real_s=0.0, **held) for record in records]


def with_tau(base: Scenario, tau: int, **options: str | int) -> Scenario:
    """Return `base` with the options, and with tau where it drafts: elsewhere tau is refused."""
    return replace(base, tau=tau if base.members[0].draft else 0, **options)  # type: ignore[arg-type]


scenarios = st.builds(
    with_tau,
    st.sampled_from(
        [
            Scenario(),
            Scenario(residency="trace"),
            Scenario(residency="trace", draft="elastic"),
            Scenario(kv_tier="fast", preemption="spill", hardware="elmoe3d-4gb", batching="slo-aware"),
            Scenario(placement="topic", batching="topic-aware"),
        ]
    ),
    mode=st.sampled_from(["fixed-ar", "tau", "tau", "cost"]),
    tau=st.sampled_from([0, 2]),
    prefill=st.sampled_from(["mixed", "prefill-first", "decode-first"]),
    max_num_seqs=st.sampled_from([FEW, MANY]),
)
leases_s = st.sampled_from([NEVER, LEASE_S])


IN_A_STALL = [Happening(1.3, 0.7), Happening(0.1, Request("", 0.0, 1, 60, seed=3))]
"""A request that comes while the device stands still is in the one plan after that."""

IN_A_LEAP = [Happening(0.1, Request("", 0.0, 40, 90, seed=3)), Happening(0.5, 0.3)]
"""A stall that comes while the steps to the request's end are under way as one."""


@examples(30)
@example(drawn=IN_A_LEAP, scenario=Scenario(mode="fixed-ar"), lease_s=NEVER, leaps=True)
@example(drawn=IN_A_STALL, scenario=Scenario(residency="trace"), lease_s=LEASE_S, leaps=False)
@given(
    drawn=happenings,
    scenario=scenarios,
    lease_s=leases_s,
    leaps=st.booleans(),
)
def test_live_and_virtual_time_agree_to_the_last_digit(
    drawn: list[Happening], scenario: Scenario, lease_s: float, leaps: bool
) -> None:
    script = numbered(drawn)
    live = Live(Device(scenario, lease_s), script).run()
    simulated = virtual(Device(scenario, lease_s), script, leaps)
    assert live.tokens_s == simulated.tokens_s
    if not leaps:
        made, full = (live.records, simulated.records), scenario.max_num_seqs == FEW
        assert comparable(made[0], full) == comparable(made[1], full)
