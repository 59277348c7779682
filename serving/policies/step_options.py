"""The ways in which a device can carry a step out: plainly, or drafting to some depth; what each costs, and yields."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from device_model.acceptance import Acceptance, acceptance_of, measured_of
from device_model.device import RooflineDevice
from device_model.specs.measured_rates import MeasuredRates, read_measured
from device_model.speculation import chain_rate, draws_at, mean_accepted, sample_accepted
from device_model.step import DraftShape, StepCost, StepPlan
from device_model.tree_law import accepted_of
from serving.nearest_name import meant
from serving.policies.placed_plan import Mix, coarse, placed
from serving.policies.step_option import KV_TOKENS, PLAIN, SHARES, DraftedStep, Progress, StepOption
from serving.policies.token_costs import TokenCosts
from serving.policies.tree_choice import TreeChoice
from serving.policies.turnover import CostQuestion, TokenCost
from serving.usage_error import UsageError

ACCEPTANCES = PUBLISHED, MEASURED, EXECUTED = ("published", "measured", "executed")
"""Where acceptance comes from: rates of the paper, or measured on the bundled token model; or the token model drafts,
and what is expected of it is measured."""


class StepOptions:
    """A device, where the acceptance rates of its drafts come from, and what trees it drafts."""

    def __init__(self, device: RooflineDevice, acceptance: str = PUBLISHED, trees: TreeChoice | None = None) -> None:
        """Raise UsageError for an unknown source of rates."""
        if acceptance not in ACCEPTANCES:
            raise UsageError(
                f"acceptance is {acceptance!r}; allowed is {' or '.join(ACCEPTANCES)}{meant(acceptance, ACCEPTANCES)}."
            )
        self.device = device
        self.trees = trees or TreeChoice()
        self._best: dict[tuple[int, int, int, int, Mix | None], DraftShape] = {}
        self._token_costs: dict[tuple[int, ...], TokenCosts] = {}
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

        Where nothing decodes all options are the plain one. A plan that has a draft of a depth keeps it. ValueError for
        a depth that the device can't draft to.
        """
        kept = plan.draft
        plan = plan if kept is None else dataclasses.replace(plan, draft=None)
        decoding = int(plan.decodes.sum())
        if not decoding:
            return [StepOption(PLAIN, self.device.probe(plan, steps, ext_bytes_per_s), 0.0)]
        return [
            self._drafting(plan, self._shape(plan, depth, ext_bytes_per_s, kept), ext_bytes_per_s)
            if depth
            else StepOption(PLAIN, self.device.probe(plan, steps, ext_bytes_per_s), decoding)
            for depth in depths
        ]

    def draft(
        self, plan: StepPlan, progress: Progress, steps: int, ext_bytes_per_s: float | None, depth: int
    ) -> list[DraftedStep]:
        """Price `steps` steps that draft to a `depth`, one after the other from `plan` on, in which all sequences
        decode. What is accepted in each tells how the next one begins. ValueError as of `price`."""
        found = []
        for _ in range(steps):
            [option] = self.price(plan, 1, ext_bytes_per_s, (depth,))
            accepted = draw_accepted(progress, option)
            found.append(DraftedStep(option, accepted))
            plan, progress = advanced(plan, accepted), progress.after(accepted)
        return found

    def _drafting(self, plan: StepPlan, shape: DraftShape, ext_bytes_per_s: float | None) -> StepOption:
        assert self.device.draft is not None
        plan = dataclasses.replace(plan, draft=shape)
        costs = self.device.probe(plan, 1, ext_bytes_per_s)
        accepted = accepted_of(self.acceptance(plan).alpha, self.device.draft.shape, shape)
        rate = chain_rate(accepted, shape.depth)
        decoding = int(plan.decodes.sum())
        return StepOption(shape.depth, costs, decoding * (1.0 + mean_accepted(rate, shape.depth)), rate, shape)

    def _shape(self, plan: StepPlan, depth: int, ext_bytes_per_s: float | None, kept: DraftShape | None) -> DraftShape:
        """Return the tree of a depth for a batch: the one that is `kept`, or set, or pays best for batches like it."""
        draft = self.device.draft
        if draft is None:
            raise ValueError(f"The depth is {depth}; a device without a draft decodes plainly ({PLAIN})")
        if kept is not None and kept.depth == depth:
            return kept
        if not self.trees.free or plan.routes is not None:
            return self.trees.shape(draft, depth)
        granted = self.device.ext_bytes_per_s if ext_bytes_per_s is None else ext_bytes_per_s
        share = max(1, round(SHARES * granted / self.device.ext_bytes_per_s))
        decoding = int(plan.decodes.sum())
        kv, mix = int(plan.context.sum()) // KV_TOKENS, coarse(plan.placed)
        key = (depth, decoding, kv, share, mix)
        found = self._best.get(key)
        if found is None:
            alike = placed(_alike(decoding, kv), mix)
            share_bytes_per_s = share / SHARES * self.device.ext_bytes_per_s

            def worth(shape: DraftShape) -> float:
                return self._drafting(alike, shape, share_bytes_per_s).worth(self.trees.by_energy)

            found = self._best[key] = self.trees.best(draft, depth, worth)
        return found

    def move(self, to_hb: int, to_ext: int, ext_bytes_per_s: float | None = None) -> StepCost:
        """Return the cost of moving the KV cache of `to_hb` tokens from EXT to HB, and of `to_ext` from HB to EXT."""
        size = self.device.kv_bytes_per_token
        return self.device.transfer(to_hb * size, to_ext * size, ext_bytes_per_s)

    def swap(
        self, plan: StepPlan, before: Mix | None, depth: int = PLAIN, ext_bytes_per_s: float | None = None
    ) -> StepCost:
        """Return the cost of placing `plan`'s experts where those of the mix `before` were, for steps that draft to a
        `depth`: HB holds slices of them then, if its draft is made of these. Raise ValueError for a device that knows
        no topics, or a depth that it can't draft to."""
        drafts = depth != PLAIN and plan.decodes.any()
        shape = self._shape(plan, depth, ext_bytes_per_s, plan.draft) if drafts else None
        return self.device.swap_cost(dataclasses.replace(plan, draft=shape), before, ext_bytes_per_s)

    def token_costs(self, depths: tuple[int, ...], question: CostQuestion) -> list[TokenCost]:
        """Return what a token costs in plain decoding, and in drafting to the best of `depths`. Answers are kept: those
        who ask for one device's sake know them for all devices of its kind."""
        if depths not in self._token_costs:
            self._token_costs[depths] = TokenCosts(self, self.device.ext_bytes_per_s, depths)
        return self._token_costs[depths].of(question)

    def acceptance(self, plan: StepPlan) -> Acceptance:
        """Return the acceptance rate of the sequences of `plan` that decode, at the calibrated depth, with the pool for
        which the plan's draft leaves room (the calibrated one's, if it names none). Raise ValueError without a
        draft."""
        if self._measured is None:
            return acceptance_of(self.device, plan)
        return measured_of(self.device, plan, self._measured)


def draw_accepted(progress: Progress, option: StepOption) -> list[int]:
    """Return how many drafts of each sequence are accepted in a step, [n]: drawn by the option's rate, and for a
    sequence near its end no more than what is left, though it drafts on as the others do."""
    draws = draws_at(np.array(progress.seeds), np.array(progress.released), option.depth)
    accepted = np.minimum(sample_accepted(draws, option.rate), np.array(progress.remaining) - 1)
    found: list[int] = accepted.tolist()
    return found


def advanced(plan: StepPlan, accepted: list[int]) -> StepPlan:
    """Return the plan of the step after one in which so many drafts of each sequence were accepted."""
    return dataclasses.replace(plan, context=plan.context + plan.new_tokens + np.array(accepted))


def _alike(decoding: int, kv: int) -> StepPlan:
    """Return a batch that stands for those of a bucket: of `decoding` sequences, with `kv` buckets of the KV cache."""
    context = round((kv + 0.5) * KV_TOKENS / decoding)
    return StepPlan(np.ones(decoding, dtype=np.int64), np.full(decoding, context, dtype=np.int64))
