"""A device to emulate, by names: small enough to send to an actor, which loads it."""

from collections.abc import Callable, Sequence
from math import isclose
from pathlib import Path
from typing import NamedTuple

import numpy as np

from device_model.condition import HEALTHY, Condition
from device_model.device import RooflineDevice
from device_model.experts.published_usage import published_usage
from device_model.experts.topic_usage import UNKNOWN, TopicUsage, read_usage
from device_model.load import load_device, load_model, places_experts
from device_model.specs.hardware_file import load_hardware
from device_model.specs.law import Law
from device_model.specs.spec import DeviceError
from device_model.step import StepPlan
from serving.device.drafts.executed_drafts import ExecutedDrafts, Texts
from serving.device.drafts.traced_drafts import Drafter, RecordedDrafts
from serving.device.mode_choice import ModeChoice
from serving.device.pricing import BatchPricer, ModelPricer, Pricer
from serving.device.routed_pricing import Choices, RoutePricer, TracedDevice
from serving.device.slow_tier import LEASE_S
from serving.device.traced_pricing import DraftTracePricer, TracePricer
from serving.policies.placed_plan import Mix
from serving.policies.placement import ALWAYS, LRU, OWN_SWAP, PUBLISHED, ExpertPlacement
from serving.policies.prompt_pace import Curve, PromptPace, doubling
from serving.policies.step_option import PLAIN, StepModel
from serving.policies.step_options import EXECUTED, StepOptions
from serving.scenario.faults import NAMED, Fault
from serving.scenario.fleet import FleetError, Member
from serving.scenario.scenario import ALL_TIERS, Scenario
from serving.topics.names import NAMES
from serving.types import NEVER
from serving.usage_error import UsageError

USAGE = "experts_by_topic.json"
"""Beside a token model's weights: how often the tokens of each topic choose each expert."""

# A lone request's context, by which devices are told apart in speed.
TYPICAL_CONTEXT = 1024
# Chunks of prompts whose times tell what others take. GPUs leap behind some powers of two, where no CUDA graph holds a
# step any more.
CHUNKS_PROBED = [tokens for power in doubling(1 << 15) for tokens in dict.fromkeys((power, power + (power >= 64)))]
# A chunk of so many tokens, behind as many, tells what it takes to read those before it: of fewer, what a GPU's host
# takes for the step may be longer.
READING = 8192


class DeviceLimits(NamedTuple):
    """A device's figures for admission and scheduling: tokens that its KV cache holds, tokens that may be spilled
    beside it, the longest context, LPDDR bandwidth when nothing throttles it (bytes/s), seconds per decoded token of a
    lone request, the seconds of prompts by themselves, the deepest draft, whether its engine plans a step while the
    one before it runs, and the watts that it draws whatever it does."""

    kv_capacity_tokens: int
    spill_tokens: int
    max_context_tokens: int
    ext_bytes_per_s: float
    token_s: float
    prompts: PromptPace
    deepest: int
    schedules_ahead: bool
    static_w: float


class Followed(NamedTuple):
    """A token model that a device with a traced cache follows: what its routers choose, and what makes known the text
    of its sequences."""

    choices: Choices
    texts: Callable[[], Texts]


class DeviceSpec(NamedTuple):
    """A device to emulate.

    `system`, `hardware`, `model` and `draft` (or "") name files. `acceptance` says where acceptance rates come from,
    `mode_choice` when to draft, `placement` how experts are placed in the fast tier by topics, `usage` whether by the
    table of `token_model`'s routers or by a published share, `swap` when they are placed anew, and `kv_tier` where the
    KV cache lies. With a `trace`, actual expert routes are followed. `sharers` devices, this one included, share its
    slow tier.
    """

    system: str
    hardware: str
    model: str
    draft: str
    acceptance: str
    law: str
    mode_choice: ModeChoice
    placement: str
    usage: str
    swap: str
    token_model: str
    kv_tier: str
    trace: TracedDevice | None
    sharers: int = 1
    condition: Condition = HEALTHY

    @staticmethod
    def of(scenario: Scenario, member: Member) -> "DeviceSpec":
        """Return the spec of a scenario's `member`."""
        names = (member.system, member.hardware, scenario.model)
        return DeviceSpec(
            *names,
            draft=member.draft,
            acceptance=scenario.acceptance,
            law=scenario.law,
            mode_choice=ModeChoice(
                scenario.mode,
                scenario.tau,
                scenario.draft_depth,
                scenario.objective,
                scenario.width,
                scenario.verify,
            ),
            placement=scenario.placement,
            usage=scenario.usage,
            swap=scenario.swap,
            token_model=scenario.token_model,
            kv_tier=scenario.kv_tier,
            trace=TracedDevice(*names, scenario.token_model, member.draft, scenario.acceptance)
            if scenario.residency == "trace"
            else None,
            sharers=scenario.shared_ext,
        )

    @property
    def member(self) -> Member:
        """The system, hardware and draft, as a scenario's fleet names them."""
        return Member(self.system, self.hardware, self.draft)

    def in_condition(self, condition: Condition) -> "DeviceSpec":
        """Return the same device in another condition."""
        trace = self.trace._replace(condition=condition) if self.trace else None
        return self._replace(condition=condition, trace=trace)

    def suffering(self, fault: Fault) -> "DeviceSpec":
        """Return the same device with a fault on it alone. Raise DeviceError if the fault is of a memory tier that it
        does not have."""
        tiers = load_hardware(self.hardware).tiers
        if fault.kind in NAMED and fault.kind not in tiers:
            there = f"{tiers.fast} (or fast) and {tiers.slow} (or slow)"
            raise DeviceError(f"{self.hardware} has no memory tier {fault.kind!r}; its tiers are {there}.")
        return self.in_condition(fault.condition)

    def load(self) -> StepOptions:
        """Load the device and its step options. Raise DeviceError."""
        device = load_device(self.system, self.hardware, self.model, self.draft or None, self.condition, Law(self.law))
        if self.placement != LRU or (self.trace is not None and device.places_experts):
            device.know_topics(self._usage())
        return StepOptions(device, self.acceptance, self.mode_choice.trees)

    def pricer(self, model: StepModel, followed: Callable[[TracedDevice], Followed]) -> Pricer:
        """Return the pricer of steps, by `model`, loaded from this spec, or by the token model that is `followed` if
        the cache is traced. Raise DeviceError or UsageError."""
        if self.trace is not None and not places_experts(self.system):
            return self._trace_pricer(self.trace, model, followed(self.trace))
        options = self.load()
        placing = self._expert_placement(model, options.device)
        if self.trace is not None:
            return RoutePricer(options, followed(self.trace).choices, placing)
        return ModelPricer(model, self.mode_choice.modes(options, model), placing)

    def repriced(self, pricer: Pricer, model: StepModel, followed: Callable[[TracedDevice], Followed]) -> Pricer:
        """Return the pricer that goes on in this condition where `pricer` was in another one."""
        if isinstance(pricer, TracePricer) and self.trace is not None:
            pricer.emulate(self.trace)
            if isinstance(pricer, DraftTracePricer):
                pricer.choose_by(self.mode_choice.modes(self.load(), model), model)
            return pricer
        # From which batch on drafting pays depends on the condition; what HB holds does not.
        found = self.pricer(model, followed)
        if isinstance(found, BatchPricer) and isinstance(pricer, BatchPricer):
            found.go_on_from(pricer)
        return found

    def _trace_pricer(self, trace: TracedDevice, model: StepModel, followed: Followed) -> TracePricer:
        modes, choices = self.mode_choice.modes(self.load(), model), followed.choices
        if not trace.draft:
            return TracePricer(trace, choices)
        drafter: Drafter = RecordedDrafts(choices)
        if trace.acceptance == EXECUTED:
            drafter = ExecutedDrafts(trace, choices, followed.texts())
        return DraftTracePricer(trace, choices, drafter, model, modes)

    @property
    def lease_s(self) -> float:
        """For how long a lease of its slow tier holds, in emulated seconds: what other devices draw changes."""
        return LEASE_S if self.sharers > 1 else NEVER

    def device_limits(self, step_options: StepOptions) -> DeviceLimits:
        """Return the device's limits, by its device model. Raise UsageError if the KV cache has no room, or if the
        device has no external memory to share."""
        device = step_options.device
        if self.sharers > 1 and not device.ext.capacity_bytes:
            raise UsageError(
                f"`shared_ext` is {self.sharers}, and {self.hardware} has no external memory to share.", "shared_ext"
            )
        plan = StepPlan.of((1, TYPICAL_CONTEXT))
        fastest = max(
            option.tokens_per_s for option in step_options.price(plan, depths=sorted({PLAIN, step_options.calibrated}))
        )
        most, spill = device.kv_capacity_among(self.sharers), 0
        if self.kv_tier != ALL_TIERS:
            most, spill = device.kv_capacity_in_hb_tokens, most - device.kv_capacity_in_hb_tokens
        if most <= 0:
            raise UsageError(
                f"`kv_tier` is {self.kv_tier!r}, and {self.hardware} has no room for a KV cache there.", "kv_tier"
            )
        return DeviceLimits(
            kv_capacity_tokens=most,
            spill_tokens=spill,
            max_context_tokens=device.max_context_tokens,
            ext_bytes_per_s=device.ext_bytes_per_s / self.condition.ext_share,
            token_s=1.0 / fastest,
            prompts=prompt_pace(device),
            deepest=step_options.deepest,
            schedules_ahead=device.schedules_ahead,
            static_w=device.static_w,
        )

    def _expert_placement(self, model: StepModel, device: RooflineDevice) -> ExpertPlacement | None:
        """Return what places the experts; None where they are cached as they are used."""
        if self.placement == LRU:
            return None
        always = device.places_experts if self.swap == OWN_SWAP else self.swap == ALWAYS
        return ExpertPlacement(model, self._usage(), self.placement, always)

    def mix_of_all(self) -> Mix | None:
        """Return the mix of topics for which experts are placed where nothing is known of requests: all alike; None
        where they are cached as they are used."""
        return None if self.placement == LRU else self._usage().mix(np.array([UNKNOWN]))

    def _usage(self) -> TopicUsage:
        if self.usage == PUBLISHED:
            return published_usage(load_model(self.model), NAMES)
        return read_usage(Path(self.token_model) / USAGE)


def prompt_pace(device: RooflineDevice) -> PromptPace:
    """Return the seconds of prompts by themselves, by a few probes of the device."""

    def seconds(tokens: int, context: int = 0) -> float:
        return float(device.probe(StepPlan.of((tokens, context))).latency_s[0])

    chunks = CHUNKS_PROBED
    read = min(READING, max(1, device.max_context_tokens // 2))
    reading_s = (seconds(read, read) - seconds(read)) / read**2
    return PromptPace(Curve(chunks, [seconds(tokens) for tokens in chunks]), reading_s)


def check_shared(rates: Sequence[float], sharers: int) -> None:
    """Raise `FleetError` if devices that share an LPDDR tier differ in its bandwidth: `rates` in bytes/s, by device."""
    for index, rate in enumerate(rates):
        first = index - index % sharers
        if not isclose(rate, rates[first]):
            raise FleetError(
                f"Device {index} shares the LPDDR of device {first} (`shared_ext` is {sharers}): it must be made for "
                f"{rates[first] / 1e9:g} GB/s too, and is made for {rate / 1e9:g} GB/s.",
                "shared_ext",
            )
