"""Prices the steps of a batch by the device model, and chooses the mode of each."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import NamedTuple, Protocol

import numpy as np

from device_model.step import StepCost, StepCosts, StepPlan
from serving.policies.modes import Modes
from serving.policies.placement import ExpertPlacement, PlacedPlan
from serving.policies.prompt_load import Crowd
from serving.policies.regrets import DecodeBatch
from serving.policies.step_option import PLAIN, DraftedStep, Progress, StepModel, StepOption
from serving.policies.step_options import advanced, draw_accepted
from serving.types import Batch

# Steps that draft whose prices are asked for together. What the device model works out at once takes it little longer
# than one step, and if the batch changes, only so many were worked out in vain.
TOGETHER = 4


class StepPrice(NamedTuple):
    """A step's price.

    `unrouted` counts tokens whose experts had to be guessed. `drafts` sequences draft to a `depth`; `accepted[i]` of
    sequence i's drafts are accepted, and `accepted_by[k]` sequences have k accepted. `reason` says why the step is in
    its mode. `swaps` is 1 if HB was given other experts first, which took `swap_s` and `swap_j` of the cost; `moved_s`
    is the part of the latency spent moving experts, or keys and values. `run` holds the costs of all steps of the
    batch, this one first, where they differ by context alone. `plan` is what was priced.
    """

    cost: StepCost
    unrouted: int = 0
    accepted: list[int] = []  # noqa: RUF012  # never written to
    drafts: int = 0
    depth: int = 0
    reason: str = ""
    swaps: int = 0
    moved_s: float = 0.0
    swap_s: float = 0.0
    swap_j: float = 0.0
    accepted_by: list[int] = []  # noqa: RUF012  # never written to
    run: StepCosts | None = None
    plan: StepPlan | None = None

    def after(self, moved: StepCost) -> "StepPrice":
        """Return the price of the same step preceded by the transfer `moved` between the tiers."""
        return self._replace(cost=moved.plus(self.cost), moved_s=self.moved_s + moved.latency_s, run=None)

    def after_swap(self, swap: StepCost) -> "StepPrice":
        """Return the price of the same step preceded by a `swap` of experts."""
        return self.after(swap)._replace(swaps=1, swap_s=swap.latency_s, swap_j=swap.energy_j)

    def at(self, cost: StepCost) -> "StepPrice":
        """Return the price of the same step at another cost, of which what moved before it has the same shares."""
        longer, dearer = cost.latency_s / self.cost.latency_s, cost.energy_j / self.cost.energy_j
        return self._replace(
            cost=cost, moved_s=self.moved_s * longer, swap_s=self.swap_s * longer, swap_j=self.swap_j * dearer
        )


class Pricer(Protocol):
    """Prices the steps of a batch, one after the other; the caller carries out each step that it takes from `price`."""

    def price(self, batch: Batch, ext_bytes_per_s: float) -> Iterator[StepPrice]: ...

    def again(self, priced: StepPrice, steps: int, ext_bytes_per_s: float) -> StepCost:
        """Return the present cost of a step priced earlier, `steps` steps into its batch, without the transfers before
        it."""
        ...


class BatchPricer(ABC):
    """Prices a batch's steps, the first one after what is moved for it: experts that are placed anew, keys and values
    that are fetched or spilled."""

    def __init__(self, model: StepModel, placing: ExpertPlacement | None) -> None:
        """`model` prices what is moved. With `placing`, the fast tier holds the experts that it chooses; otherwise
        those used last."""
        self._model, self._placing = model, placing
        # To which the last batch drafted.
        self._depth = PLAIN

    def price(self, batch: Batch, ext_bytes_per_s: float) -> Iterator[StepPrice]:
        placed = self._placing.place(batch, self._depth, ext_bytes_per_s) if self._placing else PlacedPlan(batch.plan)
        steps = self._steps(batch, placed.plan, ext_bytes_per_s)
        first = next(steps)
        if placed.swap:
            first = first.after_swap(placed.swap)
        if batch.fetched_tokens or batch.spilled_tokens:
            moved = self._model.move(batch.fetched_tokens, batch.spilled_tokens, ext_bytes_per_s)
            first = first.after(moved)
        yield first
        yield from steps

    def go_on_from(self, other: "BatchPricer") -> None:
        """Go on where another pricer was: with the experts in HB, and the depth of the drafts."""
        self._depth = other._depth
        if self._placing and other._placing:
            self._placing.go_on_from(other._placing)

    @abstractmethod
    def _steps(self, batch: Batch, plan: StepPlan, ext_bytes_per_s: float) -> Iterator[StepPrice]:
        """Yield the price of each step of a batch, of which `plan` is the first, without what is moved."""

    @abstractmethod
    def again(self, priced: StepPrice, steps: int, ext_bytes_per_s: float) -> StepCost: ...


class ModelPricer(BatchPricer):
    """Prices steps by the device model, each in the mode that `modes` chooses."""

    def __init__(self, model: StepModel, modes: Modes, placing: ExpertPlacement | None = None) -> None:
        super().__init__(model, placing)
        self._modes = modes

    def go_on_from(self, other: BatchPricer) -> None:
        """Go on where another pricer was, in its mode too."""
        super().go_on_from(other)
        if isinstance(other, ModelPricer):
            self._modes.go_on_from(other._modes)

    def _steps(self, batch: Batch, plan: StepPlan, ext_bytes_per_s: float) -> Iterator[StepPrice]:
        depths, verdict = self._modes.candidates(decode_batch(batch, plan, ext_bytes_per_s))
        tokens = min(batch.horizon, verdict.tokens)
        step_options = self._model.price(plan, tokens, ext_bytes_per_s, depths)
        left_s = verdict.until_s - batch.start_s
        option, reason = self._modes.choose([option.within(left_s) for option in step_options], verdict)
        self._depth = option.depth if option.tokens else self._depth
        if option.depth == PLAIN:
            # Who makes them all at once asks for the first only.
            yield StepPrice(option.costs.first, reason=reason, run=option.costs, plan=plan)
            for cost in islice(option.costs, 1, None):
                yield StepPrice(cost, reason=reason, run=option.costs, plan=plan)
            return
        first = drafted(batch, option)._replace(reason=reason, plan=replace(plan, draft=option.shape))
        yield first
        # Each of them gives a sequence as many tokens as its depth and one more, at most.
        steps = tokens // (1 + option.depth)
        progress = Progress(batch.seeds, batch.released, batch.remaining)
        following = self._drafting(plan, progress, first, steps - 1, ext_bytes_per_s)
        left_s -= option.step_s
        while left_s > 0 and (price := next(following, None)):
            yield price._replace(reason=reason)
            left_s -= price.cost.latency_s

    def _drafting(
        self, plan: StepPlan, progress: Progress, before: StepPrice, steps: int, ext_bytes_per_s: float
    ) -> Iterator[StepPrice]:
        """Yield the prices of `steps` steps after `before`, which drafted for `plan`, each as far on as those before
        it had drafts accepted. All sequences decode."""
        accepted, coming = before.accepted, deque[DraftedStep]()
        for left in range(steps, 0, -1):
            plan, progress = advanced(plan, accepted), progress.after(accepted)
            if not coming:
                coming.extend(self._model.draft(plan, progress, min(left, TOGETHER), ext_bytes_per_s, before.depth))
            option, accepted = coming.popleft()
            self._modes.go_on(option)
            yield _drafted(option, accepted, len(accepted))._replace(plan=replace(plan, draft=option.shape))

    def again(self, priced: StepPrice, steps: int, ext_bytes_per_s: float) -> StepCost:
        assert priced.plan is not None
        # Of steps that draft each has a plan of its own.
        steps = 0 if priced.depth else steps
        plan = replace(priced.plan, context=priced.plan.context + steps * priced.plan.new_tokens)
        [option] = self._model.price(plan, 1, ext_bytes_per_s, (priced.depth,))
        return option.costs.first


def decode_batch(batch: Batch, plan: StepPlan, ext_bytes_per_s: float) -> DecodeBatch:
    """Return a batch as mode policies judge it."""
    decoding, new, tokens = batch.decoding, sum(batch.new_tokens), int(plan.context.sum())
    # Of those that decode: beside a prompt one of them would seem to have the KV cache of all.
    kv_tokens = tokens if decoding == len(batch.ids) else int(plan.context[plan.decodes].sum())
    crowd = _crowd(batch, tokens + new)
    return DecodeBatch(decoding, kv_tokens, new - decoding, batch.start_s, ext_bytes_per_s, crowd, plan.placed)


def _crowd(batch: Batch, tokens: int) -> Crowd:
    """Return what the requests of a batch, which has `tokens` with those of its step, tell of the crowd."""
    sequences, outlook, released = len(batch.ids), batch.outlook, sum(batch.released)
    answers = max(released, outlook.answered * (released + sum(batch.remaining)))
    # What is computed anew of a request that lost its tokens counts for less than was released of it.
    prompts = max(sequences, tokens - released)
    return Crowd(
        sequences + outlook.admissible, prompts / sequences, max(1.0, answers / sequences), outlook.prompt_tokens
    )


def drafted(batch: Batch, option: StepOption, accepted: list[int] | None = None) -> StepPrice:
    """Return the price of a step that drafts, of which each sequence has so many drafts `accepted`; None draws them by
    the option's rate."""
    decoding = batch.decodes
    if accepted is None:
        accepted = draw_accepted(Progress(batch.seeds, batch.released, batch.remaining), option)
    counts = [count if decodes else 0 for count, decodes in zip(accepted, decoding, strict=True)]
    return _drafted(option, counts, sum(decoding))


def _drafted(option: StepOption, accepted: list[int], decoding: int) -> StepPrice:
    """Return the price of a step of which `decoding` sequences draft; those that don't have nothing accepted."""
    accepted_by = np.bincount(accepted, minlength=option.depth + 1)
    accepted_by[0] -= len(accepted) - decoding
    cost = next(iter(option.costs))
    return StepPrice(cost, 0, accepted, decoding, option.depth, accepted_by=accepted_by.tolist())
