"""Traced drafts: which experts a draft of a batch wants, pass by pass, and its verification reads."""

from typing import NamedTuple, Protocol

import numpy as np

from device_model.experts.residency import BoolArray
from device_model.step import DraftRoutes, DraftShape, IntArray, StepPlan
from serving.device.routed_pricing import Choices, TracedDevice
from serving.types import Batch


class TracedDraft(NamedTuple):
    """A draft of a batch: the `routes` of the pass that verifies it, the experts of its passes, of how many tokens
    routes were guessed, and, if it was executed, how many drafts of each sequence were `accepted`, of what is left of
    it."""

    routes: IntArray
    drafts: DraftRoutes
    unrouted: int
    accepted: list[int] | None = None


class Drafter(Protocol):
    """Drafts for a batch with the experts of a pool."""

    def draft(self, batch: Batch, plan: StepPlan, shape: DraftShape, pool: BoolArray | None) -> TracedDraft:
        """Return the draft of the sequences of `plan` that decode, with the experts of a `pool` [layers, experts] of
        the emulated model; None is all of them."""
        ...

    def emulate(self, trace: TracedDevice) -> None:
        """Follow a device whose condition has changed."""
        ...


class RecordedDrafts:
    """The `Drafter` that stands in for drafts by the target's own routes, where none are executed.

    A draft follows the tokens that come: its first pass drafts from one token, and the `width` tokens of each later
    one have the routes of as many successive tokens, each pass one further on; so have those of the tree that is
    verified. Drafts share context, and tokens of one request route alike (ELMoE-3D, Fig. 16b).
    """

    def __init__(self, choices: Choices) -> None:
        self._choices = choices

    def draft(self, batch: Batch, plan: StepPlan, shape: DraftShape, pool: BoolArray | None) -> TracedDraft:
        decodes = plan.decodes
        each = max(shape.target_tokens, shape.depth + shape.width - 1)
        rows, unrouted = self._choices.rows(batch, plan.new_tokens, plan.context, each - 1)
        counts = np.where(decodes, each, plan.new_tokens)
        of_sequence = np.repeat(np.arange(len(counts)), counts)
        place = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        ahead = rows[decodes[of_sequence]].reshape(-1, each, *rows.shape[1:])
        passes = tuple(
            ahead[:, i : i + (shape.width if i else 1)].reshape(-1, *rows.shape[1:]) for i in range(shape.depth)
        )
        verified = rows[~decodes[of_sequence] | (place < shape.target_tokens)]
        return TracedDraft(verified, DraftRoutes(passes), unrouted)

    def emulate(self, trace: TracedDevice) -> None:
        """Hand the condition on."""
        self._choices.emulate(trace)
