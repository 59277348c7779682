"""What is emulated, as a scenario names it: small enough to be sent to an actor, which loads it."""

from collections.abc import Sequence
from math import isclose
from typing import NamedTuple

from device_model.condition import SOUND, Condition
from device_model.device import RooflineDevice
from device_model.load import load_device
from device_model.step import StepPlan
from serving.fleet import FleetError, Member
from serving.pricing import Trace
from serving.scenario import Scenario
from serving.speculate import Speculation

# A lone request's context, by which devices are told apart in speed.
TYPICAL_CONTEXT = 1024


class Figures(NamedTuple):
    """What the others need to know of a device: how much it holds, what its LPDDR delivers when nothing throttles it,
    and the seconds in which it decodes a token of a lone request."""

    kv_capacity_tokens: int
    max_context_tokens: int
    ext_bytes_per_s: float
    token_s: float


class Emulated(NamedTuple):
    """A system, its hardware and model, by the names of their files; a draft scheme (or ""), where its acceptance comes
    from, and what its cache follows if it is real. `sharers` devices, this one included, have its LPDDR between them.
    """

    system: str
    hardware: str
    model: str
    draft: str
    acceptance: str
    trace: Trace | None
    sharers: int = 1
    condition: Condition = SOUND

    @staticmethod
    def of(scenario: Scenario, member: Member) -> "Emulated":
        """What a scenario makes of one of its devices."""
        names = (member.system, member.hardware, scenario.model)
        trace = Trace(*names, scenario.token_model) if scenario.residency == "trace" else None
        return Emulated(*names, member.draft, scenario.acceptance, trace, scenario.shared_ext)

    @property
    def member(self) -> Member:
        """What it is, beside the model."""
        return Member(self.system, self.hardware, self.draft)

    def in_condition(self, condition: Condition) -> "Emulated":
        """The same in another condition."""
        trace = self.trace._replace(condition=condition) if self.trace else None
        return self._replace(condition=condition, trace=trace)

    def load(self) -> tuple[RooflineDevice, Speculation | None]:
        """The device, and how it speculates if it does. Raises SpecError."""
        device = load_device(self.system, self.hardware, self.model, self.draft or None, self.condition)
        if not self.draft:
            return device, None
        return device, Speculation(device, self.acceptance)

    def figures(self) -> Figures:
        """What the others need to know of it. Raises SpecError."""
        device, speculation = self.load()
        plan = StepPlan.of((1, TYPICAL_CONTEXT))
        step_s, tokens = device.probe(plan).latency_s[0], 1.0
        if speculation is not None:
            step = speculation.speculate(plan)
            step_s = step.costs.latency_s[0]
            tokens += sum(step.rate**depth for depth in range(1, step.depth + 1))
        return Figures(
            kv_capacity_tokens=device.kv_capacity(self.sharers),
            max_context_tokens=device.max_context_tokens,
            ext_bytes_per_s=device.ext_bytes_per_s / self.condition.ext_share,
            token_s=float(step_s) / tokens,
        )


def check_shared(rates: Sequence[float], sharers: int) -> None:
    """Raises `FleetError` if devices that share an LPDDR tier are not made for the same one: `rates` by device."""
    for index, rate in enumerate(rates):
        first = index - index % sharers
        if not isclose(rate, rates[first]):
            raise FleetError(
                f"Device {index} shares the LPDDR of device {first} (`shared_ext` is {sharers}): it must be made for "
                f"{rates[first] / 1e9:g} GB/s too, and is made for {rate / 1e9:g} GB/s."
            )
