"""A device model that drafts at every step in which something decodes: what such a step costs, and what it yields."""

import dataclasses
from typing import NamedTuple

from device_model.acceptance import Acceptance, acceptance_of, measured_of
from device_model.device import RooflineDevice
from device_model.measured import MeasuredRates, read_measured
from device_model.spec import SpecError
from device_model.speculation import chain_rate
from device_model.step import StepCosts, StepPlan
from serving.scenario import CHOICES

ACCEPTANCES = PUBLISHED, MEASURED = CHOICES["acceptance"]


class Speculated(NamedTuple):
    """The costs of one step, the longest path of its drafts (0 if nothing decodes), and the chance that a draft of it
    is accepted once those before are."""

    costs: StepCosts
    depth: int
    rate: float


class Speculation:
    """A device with a draft scheme, in its calibrated shape, and where its acceptance rates come from."""

    def __init__(self, device: RooflineDevice, acceptance: str = PUBLISHED) -> None:
        """SpecError for a device without a draft, or an unknown source of rates."""
        if device.draft is None or acceptance not in ACCEPTANCES:
            allowed = "a device with a draft, and as acceptance " + " or ".join(ACCEPTANCES)
            raise SpecError(
                f"The device drafts with {device.draft}, acceptance is {acceptance!r}; allowed is {allowed}."
            )
        self.shape = device.draft.shape
        self._device = device
        self._measured: MeasuredRates | None = read_measured() if acceptance == MEASURED else None

    def speculate(self, plan: StepPlan, ext_bytes_per_s: float | None = None) -> Speculated:
        """One step of `plan` in which all sequences that decode draft first."""
        if not (plan.new_tokens == 1).any():
            return Speculated(self._device.probe(plan, 1, ext_bytes_per_s), 0, 0.0)
        drafting = dataclasses.replace(plan, draft=self.shape)
        costs = self._device.probe(drafting, 1, ext_bytes_per_s)
        depth = self.shape.depth
        return Speculated(costs, depth, chain_rate(self.acceptance(plan).alpha * depth, depth))

    def acceptance(self, plan: StepPlan) -> Acceptance:
        """The rate of the sequences of `plan` that decode."""
        if self._measured is None:
            return acceptance_of(self._device, plan)
        return measured_of(self._device, plan, self._measured)
