"""Live expert routes: the token model's, mapped to the emulated model's experts as tokens arrive."""

from collections.abc import Callable

import numpy as np

from device_model.experts.route_map import RouteMap, Routers
from device_model.load import load_device
from device_model.step import IntArray, StepPlan
from serving.device.routed_pricing import TracedDevice
from serving.device.token_buffer import TokenBuffer
from serving.token_model.route_format import format_of
from serving.types import Batch, Chunk

PATIENCE = 0.5  # of the time that a step is expected to take
# Of a sequence, routes are guessed from those of so many tokens, its last ones: about as far as a draft looks ahead.
KEPT = 32


class LiveRoutes:
    """The `Choices` of a live server: routes come with the tokens in its buffer; missing ones are guessed."""

    def __init__(
        self,
        trace: TracedDevice,
        tokens: TokenBuffer,
        speed: float,
        note_wait: Callable[[float], object] = lambda most_s: None,
    ) -> None:
        """`speed` is in emulated seconds per real second. `note_wait` hears of each wait, with the real seconds that it
        takes at most. Raise UsageError if the token model has no experts."""
        self._format = format_of(trace.token_model)
        self._tokens, self._speed, self._note_wait = tokens, speed, note_wait
        self._last: dict[str, IntArray] = {}
        self.emulate(trace)
        model = self._expected.setup.model
        self._as_target = RouteMap(self._format.routers, Routers(model.expert_layers, model.experts, model.top_k))

    def emulate(self, trace: TracedDevice) -> None:
        """Take expected step times, which bound the wait for routes, from the device in `trace`'s condition."""
        self._expected = load_device(trace.system, trace.hardware, trace.model, condition=trace.condition)

    def rows(self, batch: Batch, new: IntArray, context: IntArray, ahead: int = 0) -> tuple[IntArray, int]:
        """Return the routes of the batch's new tokens [tokens, layers, top_k], and of `ahead` more of sequences that
        decode, as far as vLLM has made them; and how many of them were guessed."""
        self._last = {id: self._last[id] for id in batch.ids if id in self._last}
        patience_s = 0.0 if all(batch.decodes) else self._patience_s(new, context)
        self._note_wait(patience_s)
        coming = self._tokens.coming(batch.ids, patience_s, 1 + ahead)
        cuts, unrouted = [], 0
        each = zip(batch.ids, coming, new.tolist(), context.tolist(), batch.decodes, strict=True)
        for id, chunks, count, start, decodes in each:
            known = self._known(chunks[0] if chunks else None, count, start)
            if len(known) < count:
                unrouted += count - len(known)
                known = np.concatenate([self._guess(id, count - len(known)), known])
            self._keep(id, known)
            cuts.append(known)
            if ahead and decodes:
                following, missing = self._following(id, chunks, ahead)
                cuts.append(following)
                unrouted += missing
        return self._as_target(np.concatenate(cuts)), unrouted

    def _following(self, id: str, chunks: list[Chunk], ahead: int) -> tuple[IntArray, int]:
        """Return the routes of `ahead` tokens behind the first chunk's, and how many of them had to be guessed: behind
        a request's end none, as nothing comes there."""
        known = [rows for chunk in chunks[1:] if len(rows := self._known(chunk, 1, 0)) == 1]
        missing = ahead - len(known)
        ended = bool(chunks) and chunks[-1].finish is not None
        self._keep(id, *known)
        guessed = [self._guess(id, missing)] if missing else []
        return np.concatenate([*known, *guessed]), 0 if ended else missing

    def _patience_s(self, new: IntArray, context: IntArray) -> float:
        """Return the real seconds that a step with a prompt may wait for its routes. vLLM starts on the prompt when the
        device does and finishes sooner, so the wait does not put off the step's end."""
        expected = self._expected.probe(StepPlan(new, context)).latency_s[0]
        return float(expected) * PATIENCE / self._speed

    def _known(self, chunk: Chunk | None, count: int, start: int) -> IntArray:
        """Return the routes known of the `count` tokens from position `start` on: the last of them, as their chunk has
        them."""
        routers = self._format.routers
        none = np.empty((0, routers.layers, routers.top_k), dtype=np.int64)
        if chunk is None or chunk.routes is None:
            return none
        try:
            rows = self._format.read(chunk.routes)
        except ValueError:
            # They are guessed, as if they had not come.
            return none
        # Only with its first token a request brings those of its prompt, of which this may be a chunk.
        return rows[start : start + count] if chunk.first == 0 else rows[-count:]

    def _keep(self, id: str, *rows: IntArray) -> None:
        """Remember the routes of a sequence's last tokens."""
        had = [self._last[id]] if id in self._last else []
        if had or rows:
            self._last[id] = np.concatenate([*had, *rows])[-KEPT:]

    def _guess(self, id: str, count: int) -> IntArray:
        """Guess the routes of `count` tokens: those of as many of the sequence's last ones, for one alone would make a
        draft hotter than any is, or for a new sequence all experts in turn."""
        layers, experts, top_k = self._format.routers
        if id in self._last:
            last = self._last[id]
            guessed: IntArray = last[np.arange(-count, 0) % len(last)]
            return guessed
        in_turn = np.arange(count * top_k).reshape(count, 1, top_k) % experts
        return np.repeat(in_turn, layers, axis=1)
