"""Recorded answers: gives a request a whole recorded answer, from its first token to its last."""

from array import array
from bisect import bisect_right
from collections.abc import Collection
from itertools import accumulate
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from serving.recordings.recording import Recording
from serving.types import Chunk, Request

# vLLM's `FinishReason`, as chunks have it.
STOP, LENGTH = 0, 1


class AnswerLimits(NamedTuple):
    """vLLM's limits of an answer, beside the request's `max_tokens`."""

    min_tokens: int = 0
    ignore_eos: bool = False
    stop_ids: Collection[int] = ()


class Answer:
    """A recorded answer to a request. Its chunks are made page by page, as they are asked for: a long one's are
    megabytes, of which a client that goes away, or waits for a device, needs none."""

    def __init__(
        self,
        request: Request,
        texts: tuple[list[int], NDArray[np.integer[Any]] | None],
        runs: list[range],
        end: tuple[int, int | None],
    ) -> None:
        """`texts`: a recording's tokens, and their routes, if chunks bring these; `runs`: where the answer's tokens lie
        there, one run after the other; `end`: why it ends, and the token at which it stops."""
        self._request, self._end = request, end
        self._tokens, self._routes = texts
        # By run, its end in the answer, and how much further on it lies in the recording.
        self._ends = array("q", accumulate(map(len, runs)))
        self._shifts = array("q", [run.stop - end for run, end in zip(runs, self._ends, strict=True)])

    def __len__(self) -> int:
        """Return the number of its tokens."""
        return self._ends[-1]

    def page(self, start: int, end: int) -> list[Chunk]:
        """Return a chunk for each token from position `start` to `end` of the answer; none beyond its last."""
        places, id = self._places(start, min(end, len(self))), self._request.id
        chunks = [Chunk(id, first, [self._tokens[place]]) for first, place in enumerate(places, start)]
        if self._routes is not None:
            routed = zip(chunks, map(self._routes_of, range(start, end), places), strict=True)
            chunks = [msgspec.structs.replace(chunk, routes=routes) for chunk, routes in routed]
        if chunks and end >= len(self):
            finish, reason = self._end
            chunks[-1] = msgspec.structs.replace(chunks[-1], finish=finish, stop_reason=reason)
        return chunks

    def _places(self, start: int, end: int) -> list[int]:
        """Return the indices in the recording of the tokens from position `start` to `end` of the answer."""
        places: list[int] = []
        run = bisect_right(self._ends, start)
        while start < end:
            until, shift = min(self._ends[run], end), self._shifts[run]
            places += range(start + shift, until + shift)
            start, run = until, run + 1
        return places

    def _routes_of(self, position: int, place: int) -> bytes:
        """Return a token's routes. The prompt's, which come with the first token, are those of the tokens before it in
        the recording, as many as the prompt has."""
        assert self._routes is not None
        if position:
            return bytes(self._routes[place].tobytes())
        prompt = np.arange(place - self._request.prompt_tokens + 1, place + 1) % len(self._routes)
        return bytes(self._routes[prompt].tobytes())


class Answers:
    """Answers of a recording. A request's answer follows from its topic, its seed and its limits alone."""

    def __init__(self, recording: Recording, routed: bool) -> None:
        """`routed`: chunks bring the experts that the model's routers chose."""
        self._tokens = recording.tokens.tolist()
        self._routes = recording.routes if routed else None
        ends = recording.ends.tolist()
        spans = list(zip([0, *ends[:-1]], ends, recording.finished.tolist(), strict=True))
        self.usual_tokens = len(self._tokens) // len(spans)
        """What an answer has on average; those that were cut have less than they would have had."""
        self._by_topic = {
            topic: [spans[each] for each in np.flatnonzero(recording.topic_of == index)]
            for index, topic in enumerate(recording.topics)
        }
        # Also where some prompts had no topic.
        self._by_topic[""] = spans

    def answer(self, request: Request, limits: AnswerLimits) -> Answer:
        """Return the whole answer to a request.

        An answer that must be longer than the recorded one goes on with the next one of its topic.
        """
        runs, ended = self._runs(request, limits)
        runs, reason = self._stopped(runs, limits)
        finish = STOP if ended or reason is not None else LENGTH
        return Answer(request, (self._tokens, self._routes), runs, (finish, reason))

    def _runs(self, request: Request, limits: AnswerLimits) -> tuple[list[range], bool]:
        """Return where a request's tokens lie in the recording, and whether the last one ends it."""
        spans = self._by_topic.get(request.topic) or self._by_topic[""]
        runs, made = list[range](), 0
        at = request.seed
        while True:
            start, end, finished = spans[at % len(spans)]
            at += 1
            length = made + end - start
            ends = finished and (not limits.ignore_eos or self._tokens[end - 1] in limits.stop_ids)
            if ends and limits.min_tokens < length <= request.max_tokens:
                return [*runs, range(start, end)], True
            # A longer answer leaves out the token that ended this one.
            run = range(start, end - 1 if finished and end - start > 1 else end)[: request.max_tokens - made]
            runs.append(run)
            made += len(run)
            if made >= request.max_tokens:
                return runs, False

    def _stopped(self, runs: list[range], limits: AnswerLimits) -> tuple[list[range], int | None]:
        """Return an answer's runs up to the stop token, if any, at which it stops, and that."""
        stop_ids, made = frozenset(limits.stop_ids), 0
        for index, run in enumerate(runs if stop_ids else ()):
            tokens = self._tokens[run.start : run.stop]
            # Mostly there is none, which is known for all of them in a fraction of the time.
            if not stop_ids.isdisjoint(tokens):
                for at, token in enumerate(tokens, 1):
                    if token in stop_ids and made + at > limits.min_tokens:
                        return [*runs[:index], run[:at]], token
            made += len(run)
        return runs, None
