"""Trace pricer: prices steps of a device whose cache holds actual experts, hit or missed by the choices of a router."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from device_model.device import RooflineDevice
from device_model.hb_xpu.tiered import TieredDevice
from device_model.load import load_device, places_experts, trace_experts
from device_model.step import DraftShape, Seconds, StepCost, StepPlan
from serving.device.drafts.traced_drafts import Drafter
from serving.device.pricing import StepPrice, decode_batch, drafted
from serving.device.routed_pricing import Choices, RoutePricer, TracedDevice
from serving.drafting.weights import check
from serving.policies.modes import Modes
from serving.policies.step_option import PLAIN, StepModel
from serving.policies.step_options import EXECUTED, StepOptions
from serving.token_model.route_format import format_of
from serving.types import Batch


class TracePricer(RoutePricer):
    """Prices steps of a device whose cache holds actual experts, hit or missed by the token model's routes: those that
    are not in the fast memory are read from the slow one.

    Its state is the content of the fast memory. So it lives with the device, and a device that is started anew finds
    that memory cold.
    """

    def __init__(self, trace: TracedDevice, choices: Choices) -> None:
        """Raise as `check_trace` does."""
        super().__init__(StepOptions(_cached(trace), trace.acceptance), choices)
        self._untraced = _loaded(trace)
        # As that was when a step was priced last, how fast its external memory, and what that step costs by itself.
        self._then: tuple[RooflineDevice, float, StepCost] | None = None

    def emulate(self, trace: TracedDevice) -> None:
        """Change to another condition; the fast memory keeps what it holds, as far as there is room."""
        device = _cached(trace)
        device.cache = self._device.cache
        self._untraced = _loaded(trace)
        self._device, self._model = device, StepOptions(device, trace.acceptance)
        self._choices.emulate(trace)

    def _cost(self, plan: StepPlan, ext_bytes_per_s: float) -> StepCost:
        """Return the cost of a step, which is carried out: the fast memory has the experts that it misses then."""
        cost = super()._cost(plan, ext_bytes_per_s)
        self._carry_out(plan, ext_bytes_per_s, cost)
        return cost

    def _carry_out(self, plan: StepPlan, ext_bytes_per_s: float, cost: StepCost) -> None:
        self._device.commit(plan)
        self._then = self._untraced, ext_bytes_per_s, cost

    def again(self, priced: StepPrice, steps: int, ext_bytes_per_s: float) -> StepCost:
        """Return the present cost of a step priced earlier, without what was moved before it, scaled as a step with
        unknown routes would be: the fast memory has the experts that it missed by now."""
        assert priced.plan is not None and self._then is not None
        plan, (device, rate, cost) = replace(priced.plan, routes=None, drafts=None), self._then
        slower = _expected_s(plan, self._untraced, ext_bytes_per_s) / _expected_s(plan, device, rate)
        static_j = cost.energy.static_j * (slower - 1.0)
        return cost._replace(
            latency_s=cost.latency_s * slower,
            energy=cost.energy._replace(static_j=cost.energy.static_j + static_j),
            seconds=Seconds(*(part * slower for part in cost.seconds)),
            stage_energy=cost.stage_energy._replace(target_j=cost.stage_energy.target_j + static_j),
        )


class DraftTracePricer(TracePricer):
    """Prices steps of such a device that drafts: with the experts that the fast memory holds then, by what a `drafter`
    says of them. In which mode a step goes is chosen by the law, which needs no routes."""

    def __init__(
        self, trace: TracedDevice, choices: Choices, drafter: Drafter, expected: StepModel, modes: Modes
    ) -> None:
        """Have `expected` price both modes by the law. Raise as `check_trace` does."""
        super().__init__(trace, choices)
        self._drafter, self._expected, self._modes = drafter, expected, modes

    def choose_by(self, modes: Modes, expected: StepModel) -> None:
        """Choose the mode of each step by other `modes` and what is `expected`, as the device's condition has
        changed."""
        modes.go_on_from(self._modes)
        self._modes, self._expected = modes, expected

    def emulate(self, trace: TracedDevice) -> None:
        super().emulate(trace)
        self._drafter.emulate(trace)

    def _steps(self, batch: Batch, plan: StepPlan, ext_bytes_per_s: float) -> Iterator[StepPrice]:
        depths, verdict = self._modes.candidates(decode_batch(batch, plan, ext_bytes_per_s))
        options = self._expected.price(plan, min(batch.horizon, verdict.tokens), ext_bytes_per_s, depths)
        option, reason = self._modes.choose(options, verdict)
        if option.depth != PLAIN:
            assert option.shape is not None
            yield self._drafted(batch, plan, option.shape, ext_bytes_per_s)._replace(reason=reason)
            return
        horizon = min(batch.horizon, len(option.costs))
        left_s = verdict.until_s - batch.start_s
        for _, priced in zip(range(horizon), super()._steps(batch, plan, ext_bytes_per_s), strict=False):
            yield priced._replace(reason=reason)
            left_s -= priced.cost.latency_s
            if left_s <= 0:
                break

    def _drafted(self, batch: Batch, plan: StepPlan, shape: DraftShape, ext_bytes_per_s: float) -> StepPrice:
        """Return the price of a step that drafts a tree, which is carried out."""
        device = self._device
        assert isinstance(device, TieredDevice)
        draft = self._drafter.draft(batch, plan, shape, device.pool(replace(plan, draft=shape)))
        traced = replace(plan, draft=shape, routes=draft.routes, drafts=draft.drafts)
        [option] = self._model.price(traced, 1, ext_bytes_per_s, (shape.depth,))
        self._carry_out(traced, ext_bytes_per_s, option.costs.first)
        return drafted(batch, option, draft.accepted)._replace(unrouted=draft.unrouted, plan=traced)


def _expected_s(plan: StepPlan, untraced: RooflineDevice, ext_bytes_per_s: float) -> float:
    """Return the seconds that a step takes on a device whose cache is not traced."""
    return float(untraced.probe(plan, 1, ext_bytes_per_s).latency_s[0])


def check_trace(trace: TracedDevice) -> None:
    """Raise DeviceError where nothing can be traced (no experts, neither a cache nor places of their own for them), and
    UsageError for a token model without experts, or one that can't draft where it is to."""
    if trace.acceptance == EXECUTED:
        check(Path(trace.token_model))
    if not places_experts(trace.system):
        _cached(trace)
    format_of(trace.token_model)


def _cached(trace: TracedDevice) -> RooflineDevice:
    """Return the device with a real cache. Raise DeviceError if it has none."""
    device = _loaded(trace)
    trace_experts(device)
    return device


def _loaded(trace: TracedDevice) -> RooflineDevice:
    return load_device(trace.system, trace.hardware, trace.model, trace.draft or None, trace.condition)
