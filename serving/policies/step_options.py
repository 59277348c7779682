"""The ways in which a device can carry a step out: plainly, or drafting to some depth; what each costs, and yields."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from device_model.acceptance import Acceptance, acceptance_of, measured_of
from device_model.device import RooflineDevice
from device_model.specs.measured_rates import MeasuredRates, read_measured
from device_model.speculation import chain_rate, mean_accepted
from device_model.step import StepCost, StepCosts, StepPlan
from serving.usage_error import UsageError

ACCEPTANCES = PUBLISHED, MEASURED, EXECUTED = ("published", "measured", "executed")
"""Where acceptance comes from: rates of the paper, or measured on the bundled token model; or the token model drafts,
and what is expected of it is measured."""

Mix = tuple[float, ...]
"""The weight of each topic that experts are placed for."""

PLAIN = 0
"""The depth of a step that doesn't draft."""


class StepOption(NamedTuple):
    """One way to carry out a step: drafting to a `depth`, or plainly (`PLAIN`). `costs` are those of the coming steps
    if plain, else of one. `tokens` are the tokens that all decoding sequences get of the first step on average; `rate`
    is the chance that a draft is accepted once those before it are."""

    depth: int
    costs: StepCosts
    tokens: float
    rate: float = 0.0

    @property
    def tokens_per_s(self) -> float:
        return self.tokens / float(self.costs.latency_s[0])

    @property
    def tokens_per_j(self) -> float:
        return self.tokens / float(self.costs.energy_j[0].sum())


class StepModel(Protocol):
    """Answers what steps would cost: `StepOptions`, or an actor that owns them."""

    def price(
        self, plan: StepPlan, steps: int, ext_bytes_per_s: float | None, depths: Sequence[int]
    ) -> list[StepOption]: ...

    def move(self, to_hb: int, to_ext: int, ext_bytes_per_s: float | None) -> StepCost: ...

    def swap(self, plan: StepPlan, before: Mix | None, ext_bytes_per_s: float | None) -> StepCost: ...


class StepOptions:
    """A device, and where the acceptance rates of its drafts come from."""

    def __init__(self, device: RooflineDevice, acceptance: str = PUBLISHED) -> None:
        """Raise UsageError for an unknown source of rates."""
        if acceptance not in ACCEPTANCES:
            raise UsageError(f"acceptance is {acceptance!r}; allowed is {' or '.join(ACCEPTANCES)}.")
        self.device = device
        self._measured: MeasuredRates | None = None if acceptance == PUBLISHED else read_measured()

    @property
    def calibrated(self) -> int:
        """The depth that the device's draft was calibrated with; `PLAIN` if it has none."""
        return self.device.draft.shape.depth if self.device.draft else PLAIN

    @property
    def deepest(self) -> int:
        """The largest depth that the device can draft to."""
        return self.device.draft.deepest if self.device.draft else PLAIN

    def price(
        self, plan: StepPlan, steps: int = 1, ext_bytes_per_s: float | None = None, depths: Sequence[int] = (PLAIN,)
    ) -> list[StepOption]:
        """Price the next step of `plan` with each of `depths`, and `steps` in all if it is a plain one.

        Where nothing decodes all options are the plain one. ValueError for a depth that the device can't draft to.
        """
        decoding = int((plan.new_tokens == 1).sum())
        if not decoding:
            return [StepOption(PLAIN, self.device.probe(plan, steps, ext_bytes_per_s), 0.0)]
        return [
            self._drafting(plan, decoding, depth, ext_bytes_per_s)
            if depth
            else StepOption(PLAIN, self.device.probe(plan, steps, ext_bytes_per_s), decoding)
            for depth in depths
        ]

    def _drafting(self, plan: StepPlan, decoding: int, depth: int, ext_bytes_per_s: float | None) -> StepOption:
        draft = self.device.draft
        if draft is None:
            raise ValueError(f"The depth is {depth}; a device without a draft decodes plainly ({PLAIN})")
        shape = draft.shape_at(depth)
        costs = self.device.probe(dataclasses.replace(plan, draft=shape), 1, ext_bytes_per_s)
        rate = chain_rate(self.acceptance(plan).alpha * self.calibrated, self.calibrated)
        return StepOption(depth, costs, decoding * (1.0 + mean_accepted(rate, depth)), rate)

    def move(self, to_hb: int, to_ext: int, ext_bytes_per_s: float | None = None) -> StepCost:
        """Return the cost of moving the KV cache of `to_hb` tokens from EXT to HB, and of `to_ext` from HB to EXT."""
        size = self.device.kv_bytes_per_token
        return self.device.transfer(to_hb * size, to_ext * size, ext_bytes_per_s)

    def swap(self, plan: StepPlan, before: Mix | None, ext_bytes_per_s: float | None = None) -> StepCost:
        """Return the cost of placing `plan`'s experts where those of the mix `before` were. Raise ValueError for a
        device that knows no topics."""
        return self.device.swap_cost(plan, before, ext_bytes_per_s)

    def acceptance(self, plan: StepPlan) -> Acceptance:
        """Return the acceptance rate of the sequences of `plan` that decode, at the calibrated depth. Raise ValueError
        without a draft."""
        if self._measured is None:
            return acceptance_of(self.device, plan)
        return measured_of(self.device, plan, self._measured)
