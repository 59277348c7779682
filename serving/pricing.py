"""What the steps of a batch cost: asked of the device model, or carried out on a device with a real expert cache."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np

from device_model.condition import HEALTHY, Condition
from device_model.load import load_device, trace_experts
from device_model.route_map import RouteMap, Routers
from device_model.speculation import draws_at, sample_accepted
from device_model.step import IntArray, StepCost, StepCosts, StepPlan
from device_model.tiered import TieredDevice
from serving.flow import Batch, Chunk
from serving.policies.modes import Modes
from serving.policies.placement import Placed, Placing
from serving.routes import RouteFormat, format_of
from serving.tokens import Tokens
from serving.ways import PLAIN, Model, Way

PATIENCE = 0.5  # of the time that a step is expected to take


class Priced(NamedTuple):
    """A step's cost, and of how many of its tokens the experts had to be guessed. If `drafts` sequences draft, to a
    `depth`, how many drafts of each sequence of the batch are `accepted`, and (`accepted_by`) how many of those that
    draft had so many accepted. `reason`: why it is in this mode. `swaps` is 1 if HB was given other experts first,
    and `moved_s` are the seconds of the cost in which these, or keys and values, are moved. `run` are the costs of all
    steps of the batch, this one first, where nothing but time tells them apart."""

    cost: StepCost
    unrouted: int = 0
    accepted: list[int] = []  # noqa: RUF012  # never written to
    drafts: int = 0
    depth: int = 0
    reason: str = ""
    swaps: int = 0
    moved_s: float = 0.0
    accepted_by: list[int] = []  # noqa: RUF012  # never written to
    run: StepCosts | None = None

    def after(self, moved: StepCost) -> "Priced":
        """The same, once something was moved between the tiers."""
        return self._replace(cost=moved.plus(self.cost), moved_s=self.moved_s + moved.latency_s, run=None)


class Pricer(Protocol):
    """Prices the steps of a batch, one after the other; whoever takes a price carries that step out."""

    def price(self, batch: Batch, ext_bytes_per_s: float) -> Iterator[Priced]: ...


class Modelled:
    """Costs that the device model expects, each step in the mode that is chosen for it."""

    def __init__(self, model: Model, modes: Modes, placing: Placing | None = None) -> None:
        """`placing`: whose experts HB holds, if not what was used last."""
        self._model, self._modes, self._placing = model, modes, placing
        self._depth = PLAIN

    def price(self, batch: Batch, ext_bytes_per_s: float) -> Iterator[Priced]:
        placed = self._placing.place(batch, self._depth, ext_bytes_per_s) if self._placing else Placed(batch.plan)
        steps = self._steps(batch, placed.plan, ext_bytes_per_s)
        first = next(steps)
        if placed.swap:
            first = first.after(placed.swap)._replace(swaps=1)
        if batch.fetched_tokens or batch.spilled_tokens:
            moved = self._model.move(batch.fetched_tokens, batch.spilled_tokens, ext_bytes_per_s)
            first = first.after(moved)
        yield first
        yield from steps

    def _steps(self, batch: Batch, plan: StepPlan, ext_bytes_per_s: float) -> Iterator[Priced]:
        decoding = [new == 1 and emits for new, emits in zip(batch.new_tokens, batch.emits, strict=True)]
        depths, verdict = self._modes.candidates(sum(decoding))
        steps = self._modes.steps(verdict, batch.horizon)
        ways = self._model.ways(plan, steps, ext_bytes_per_s, depths)
        way, reason = self._modes.choose(ways, verdict)
        self._depth = way.depth if way.tokens else self._depth
        if way.depth == PLAIN:
            for cost in way.costs:
                yield Priced(cost, reason=reason, run=way.costs)
        else:
            # One step: only what was accepted tells how the next one begins.
            yield _drafted(batch, decoding, way, reason)


def _drafted(batch: Batch, decoding: list[bool], way: Way, reason: str) -> Priced:
    draws = draws_at(np.array(batch.seeds), np.array(batch.released), way.depth)
    accepted = sample_accepted(draws, way.rate).tolist()
    # A sequence near its end drafts on, as the others do, but has no more than what is left accepted.
    counts = [
        min(count, remaining - 1) if decodes else 0
        for count, remaining, decodes in zip(accepted, batch.remaining, decoding, strict=True)
    ]
    of_drafting = [count for count, decodes in zip(counts, decoding, strict=True) if decodes]
    accepted_by = np.bincount(of_drafting, minlength=way.depth + 1).tolist()
    cost, drafts = next(iter(way.costs)), len(of_drafting)
    return Priced(cost, 0, counts, drafts, way.depth, reason, accepted_by=accepted_by)


class Trace(NamedTuple):
    """What to trace: the emulated device, by the names of its files, the model whose routers it follows, and the
    condition that it is in."""

    system: str
    hardware: str
    model: str
    token_model: str
    condition: Condition = HEALTHY


class Traced:
    """Costs of a device whose cache holds actual experts, hit or missed by what the token model's routers choose.

    Its state is what HB holds. So it lives with the device, and a device that is started anew finds HB cold.
    """

    def __init__(self, trace: Trace, tokens: Tokens, speed: float) -> None:
        """`speed`: emulated seconds per real one. Raises SpecError as `check_trace`."""
        self._device, self._format = check_trace(trace)
        self._expected = load_device(trace.system, trace.hardware, trace.model, condition=trace.condition)
        self._speed = speed
        model = self._device.setup.model
        self._as_target = RouteMap(self._format.routers, Routers(model.expert_layers, model.experts, model.top_k))
        self._tokens = tokens
        self._last: dict[str, IntArray] = {}

    def emulate(self, trace: Trace) -> None:
        """Go on in another condition; HB holds what it held, as far as there is room."""
        device, _ = check_trace(trace)
        device.cache = self._device.cache
        self._device = device
        self._expected = load_device(trace.system, trace.hardware, trace.model, condition=trace.condition)

    def price(self, batch: Batch, ext_bytes_per_s: float) -> Iterator[Priced]:
        self._last = {id: self._last[id] for id in batch.ids if id in self._last}
        new = np.array(batch.new_tokens, dtype=np.int64)
        for step in range(batch.horizon):
            context = np.array(batch.context, dtype=np.int64) + step * new
            coming = self._tokens.coming(batch.ids, self._patience_s(new, context))
            rows, unrouted = self._rows(batch.ids, coming, new, context)
            plan = StepPlan(new, context, routes=self._as_target(rows))
            cost = next(iter(self._device.probe(plan, 1, ext_bytes_per_s)))
            self._device.commit(plan)
            yield Priced(cost, unrouted)

    def _patience_s(self, new: IntArray, context: IntArray) -> float:
        """Real seconds that a step with a prompt may wait for its routes: vLLM begins with it just as the device does,
        and is done sooner. The step's end is not put off by that; what decodes was made ahead, or is late anyway."""
        if new.max() == 1:
            return 0.0
        expected = self._expected.probe(StepPlan(new, context)).latency_s[0]
        return float(expected) * PATIENCE / self._speed

    def _rows(
        self, ids: list[str], coming: list[Chunk | None], new: IntArray, context: IntArray
    ) -> tuple[IntArray, int]:
        """The token model's routes of all tokens of a step, and how many of them are guesses."""
        cuts, unrouted = [], 0
        for id, chunk, count, start in zip(ids, coming, new.tolist(), context.tolist(), strict=True):
            known = self._known(chunk, count, start)
            if len(known) < count:
                unrouted += count - len(known)
                known = np.concatenate([self._guess(id, count - len(known)), known])
            self._last[id] = known[-1:]
            cuts.append(known)
        return np.concatenate(cuts), unrouted

    def _known(self, chunk: Chunk | None, count: int, start: int) -> IntArray:
        """What is known of `count` tokens from position `start` on, from the chunk that they lead to: its last ones."""
        routers = self._format.routers
        if chunk is None or chunk.routes is None:
            return np.empty((0, routers.layers, routers.top_k), dtype=np.int64)
        rows = self._format.read(chunk.routes)
        # Only with its first token a request brings those of its prompt, of which this may be a chunk.
        return rows[start : start + count] if chunk.first == 0 else rows[-count:]

    def _guess(self, id: str, count: int) -> IntArray:
        """Where the token source is behind: as the sequence chose last; or all experts in turn, as a prompt does."""
        layers, experts, top_k = self._format.routers
        if id in self._last:
            return np.repeat(self._last[id], count, axis=0)
        in_turn = np.arange(count * top_k).reshape(count, 1, top_k) % experts
        return np.repeat(in_turn, layers, axis=1)


def check_trace(trace: Trace) -> tuple[TieredDevice, RouteFormat]:
    """The device and the format of its routes. SpecError where there is nothing to trace: no experts, no cache."""
    device = load_device(trace.system, trace.hardware, trace.model, condition=trace.condition)
    trace_experts(device)
    assert isinstance(device, TieredDevice)  # others have been refused
    return device, format_of(trace.token_model)
