"""Executed drafts: the token model drafts with the experts that HB holds, and verifies it."""

from typing import NamedTuple, Protocol

import numpy as np

from device_model.experts.residency import BoolArray
from device_model.experts.route_map import RouteMap, Routers
from device_model.load import load_model
from device_model.step import NO_EXPERT, DraftRoutes, DraftShape, IntArray, StepPlan
from serving.device.drafts.traced_drafts import TracedDraft
from serving.device.routed_pricing import Choices, TracedDevice
from serving.drafting.drafter import DraftContext, drafter
from serving.token_model.route_format import format_of
from serving.types import Batch

# Of its stand-ins in the emulated model HB must hold so many for a draft to use an expert of the token model.
ENOUGH = 0.5


class Texts(Protocol):
    """Knows what the sequences of a batch say: `live_texts.LiveTexts` of a server, or
    `serving.simulation.recorded_texts.RecordedTexts` in virtual time."""

    def contexts(self, batch: Batch, context: IntArray, which: list[int]) -> list[DraftContext | None]:
        """Return those of the batch's sequences by index, each behind its first `context` [n] tokens; None where its
        text is not known."""
        ...


class _Known(NamedTuple):
    """The sequences of a batch, by index, that draft, and what they say."""

    which: list[int]
    contexts: list[DraftContext]


class ExecutedDrafts:
    """The `Drafter` that has the token model draft: real trees of its own 4-bit weights, verified by its INT8 weights,
    and by the text that comes, token by token.

    The emulated model's pool is the token model's as far as experts of the one stand for those of the other
    (`device_model.experts.route_map`). Of a sequence whose text is not known nothing is accepted.
    """

    def __init__(self, trace: TracedDevice, choices: Choices, texts: Texts) -> None:
        """Raise UsageError for a token model that can't draft."""
        model = load_model(trace.model)
        self._choices, self._texts = choices, texts
        self._drafter = drafter(trace.token_model, trace.draft)
        source = format_of(trace.token_model).routers
        self._as_target = RouteMap(source, Routers(model.expert_layers, model.experts, model.top_k))

    def draft(self, batch: Batch, plan: StepPlan, shape: DraftShape, pool: BoolArray | None) -> TracedDraft:
        rows, unrouted = self._choices.rows(batch, plan.new_tokens, plan.context)
        known = self._known(batch, plan)
        held = None if pool is None else self._as_target.stood_for(pool) >= ENOUGH
        found = self._drafter.draft(known.contexts, shape, held) if known.which else None
        of_sequence = np.split(rows, np.cumsum(plan.new_tokens)[:-1])
        accepted = [0] * len(batch.ids)
        if found is not None:
            for i, verified, count in zip(known.which, found.verified, found.accepted, strict=True):
                of_sequence[i] = self._as_target(verified)
                # Near its end it drafts on, as the others do, but has no more than what is left accepted.
                accepted[i] = min(count, batch.remaining[i] - 1)
            wanted = tuple(self._as_target(each) for each in found.wanted)
            computed = tuple(self._confined(each, pool) for each in found.computed)
        else:
            wanted = (np.concatenate([of_sequence[i] for i in np.flatnonzero(plan.decodes)]),) * shape.depth
            computed = None
        return TracedDraft(np.concatenate(of_sequence), DraftRoutes(wanted, computed), unrouted, accepted)

    def emulate(self, trace: TracedDevice) -> None:
        """Hand the condition on."""
        self._choices.emulate(trace)

    def _known(self, batch: Batch, plan: StepPlan) -> _Known:
        drafting = np.flatnonzero(plan.decodes).tolist()
        found = self._texts.contexts(batch, plan.context, drafting)
        pairs = [(i, context) for i, context in zip(drafting, found, strict=True) if context is not None]
        return _Known([i for i, _ in pairs], [context for _, context in pairs])

    def _confined(self, computed: IntArray, pool: BoolArray | None) -> IntArray:
        """Return the emulated model's experts that a pass computed with: the stand-ins that its pool has."""
        routes = self._as_target(np.where(computed == NO_EXPERT, _any_but(computed), computed))
        if pool is None:
            return routes
        return np.where(pool[np.arange(len(pool))[:, None], routes], routes, NO_EXPERT)


def _any_but(computed: IntArray) -> IntArray:
    """Return ids that fill up tokens with fewer than top-k experts: their first one again, or the first of all."""
    return np.broadcast_to(np.maximum(computed[..., :1], 0), computed.shape)
