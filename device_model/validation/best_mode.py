"""A platform at its best: decoding plainly or speculating, whichever is sooner, per token."""

from functools import lru_cache
from typing import NamedTuple

from device_model.acceptance import acceptance_of, batch_plan
from device_model.device import RooflineDevice
from device_model.load import make_device, own_draft
from device_model.setup import XpuSetup
from device_model.step import Energy, StepCost, StepPlan


class PerToken(NamedTuple):
    """Seconds and joules of one token of one sequence, in a mode, "ar" or "sd"."""

    mode: str
    seconds: float
    energy: Energy

    @property
    def joules(self) -> float:
        return sum(self.energy)


def modes(system: str, setup: XpuSetup, batch: int) -> list[PerToken]:
    """Return what a token costs on a platform at 1k context, in each of its modes."""
    draft = own_draft(system)
    device = _device(system, setup, draft)
    plan = batch_plan(batch)
    found = [_per_token("ar", next(iter(device.probe(plan))), batch)]
    scheme = device.draft
    if scheme is not None:
        rate = acceptance_of(device, plan).alpha
        cost = next(iter(device.probe(StepPlan(plan.new_tokens, plan.context, scheme.shape))))
        found.append(_per_token("sd", cost, batch * (1 + rate * scheme.shape.depth)))
    return found


def best(system: str, setup: XpuSetup, batch: int) -> PerToken:
    """Return the mode that is sooner."""
    return min(modes(system, setup, batch), key=lambda cost: cost.seconds)


def _per_token(mode: str, cost: StepCost, tokens: float) -> PerToken:
    return PerToken(mode, cost.latency_s / tokens, Energy(*(joules / tokens for joules in cost.energy)))


@lru_cache(maxsize=256)
def _device(system: str, setup: XpuSetup, draft: str | None) -> RooflineDevice:
    return make_device(system, setup, draft)
