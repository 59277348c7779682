"""Recorded answers: gives a request a whole recorded answer, from its first token to its last."""

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from serving.recordings.recording import Recording
from serving.types import Chunk, Request

# vLLM's `FinishReason`, as chunks have it.
STOP, LENGTH = 0, 1


class AnswerLimits(NamedTuple):
    """vLLM's limits of an answer, beside the request's `max_tokens`."""

    min_tokens: int = 0
    ignore_eos: bool = False
    stop_ids: Collection[int] = ()


class Answers:
    """Answers of a recording. A request's answer follows from its topic, its seed and its limits alone."""

    def __init__(self, recording: Recording, routed: bool) -> None:
        """`routed`: chunks bring the experts that the model's routers chose."""
        self._tokens = recording.tokens.tolist()
        self._routes = recording.routes if routed else None
        ends = recording.ends.tolist()
        spans = list(zip([0, *ends[:-1]], ends, recording.finished.tolist(), strict=True))
        self.usual_tokens = len(self._tokens) // len(spans)
        """What an answer has that ends by itself, on average."""
        self._by_topic = {"": spans}
        for index, topic in enumerate(recording.topics):
            self._by_topic[topic] = [spans[each] for each in np.flatnonzero(recording.topic_of == index)]

    def answer(self, request: Request, limits: AnswerLimits) -> list[Chunk]:
        """Return the whole answer to a request, a chunk for each token.

        An answer that must be longer than the recorded one goes on with the next one of its topic.
        """
        places, ended = self._places(request, limits)
        tokens = [self._tokens[place] for place in places]
        finish, reason = STOP if ended else LENGTH, None
        if stop := stop_at(tokens, limits):
            tokens, finish, reason = tokens[:stop], STOP, tokens[stop - 1]
        chunks = [Chunk(request.id, index, [token]) for index, token in enumerate(tokens)]
        if self._routes is not None:
            chunks = self._routed(chunks, places, request.prompt_tokens)
        last = chunks[-1]
        chunks[-1] = Chunk(last.request_id, last.first, last.tokens, finish, reason, None, last.routes)
        return chunks

    def _places(self, request: Request, limits: AnswerLimits) -> tuple[list[int], bool]:
        """Return the indices of a request's tokens in the recording, and whether the last one ends it."""
        spans = self._by_topic.get(request.topic) or self._by_topic[""]
        places: list[int] = []
        at = request.seed
        while True:
            start, end, finished = spans[at % len(spans)]
            at += 1
            length = len(places) + end - start
            ends = finished and (not limits.ignore_eos or self._tokens[end - 1] in limits.stop_ids)
            if ends and limits.min_tokens < length <= request.max_tokens:
                return places + list(range(start, end)), True
            # A longer answer leaves out the token that ended this one.
            places += range(start, end - 1 if finished and end - start > 1 else end)
            if len(places) >= request.max_tokens:
                return places[: request.max_tokens], False

    def _routed(self, chunks: list[Chunk], places: list[int], prompt_tokens: int) -> list[Chunk]:
        """Return the chunks with routes. The prompt's routes, which come with the first token, are those of the tokens
        before it in the recording, as many as the prompt has."""
        assert self._routes is not None
        prompt = np.arange(places[0] - prompt_tokens + 1, places[0] + 1) % len(self._routes)
        routes = [self._routes[prompt], *(self._routes[place : place + 1] for place in places[1:])]
        return [
            Chunk(chunk.request_id, chunk.first, chunk.tokens, routes=rows.tobytes())
            for chunk, rows in zip(chunks, routes, strict=False)
        ]


def stop_at(tokens: list[int], limits: AnswerLimits) -> int:
    """Return the number of tokens after which an answer stops because of a stop token; 0: there is none."""
    found = (at for at, token in enumerate(tokens, 1) if token in limits.stop_ids and at > limits.min_tokens)
    return next(found, 0) if limits.stop_ids else 0
