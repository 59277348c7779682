"""What a request gets of a recording: a whole answer, from its first token to its last."""

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from serving.recordings.recording import Recording
from serving.types import Chunk

# vLLM's `FinishReason`, as chunks have it.
STOP, LENGTH = 0, 1


class AskedText(NamedTuple):
    """What a request says of the text that it wants: by which id its chunks go, what it is about ("": nobody knows),
    where chance begins, the tokens of its prompt, and vLLM's limits."""

    id: str
    topic: str
    seed: int
    prompt_tokens: int
    max_tokens: int
    min_tokens: int = 0
    ignore_eos: bool = False
    stop_ids: Collection[int] = ()


class Answers:
    """Answers of a recording. Those of a request follow from its topic and its seed alone."""

    def __init__(self, recording: Recording, routed: bool) -> None:
        """`routed`: chunks bring the experts that the model's routers chose."""
        self._tokens = recording.tokens.tolist()
        self._routes = recording.routes if routed else None
        ends = recording.ends.tolist()
        spans = list(zip([0, *ends[:-1]], ends, recording.finished.tolist(), strict=True))
        self._by_topic = {"": spans}
        for index, topic in enumerate(recording.topics):
            self._by_topic[topic] = [spans[each] for each in np.flatnonzero(recording.topic_of == index)]

    def answer(self, asked: AskedText) -> list[Chunk]:
        """Return the whole answer, a chunk for each token.

        An answer that must be longer than what was recorded goes on with the next one of its topic."""
        places, ended = self._places(asked)
        tokens = [self._tokens[place] for place in places]
        finish, reason = STOP if ended else LENGTH, None
        if stop := self._stop(tokens, asked):
            tokens, finish, reason = tokens[:stop], STOP, tokens[stop - 1]
        chunks = [Chunk(asked.id, index, [token]) for index, token in enumerate(tokens)]
        if self._routes is not None:
            chunks = self._routed(chunks, places, asked)
        last = chunks[-1]
        chunks[-1] = Chunk(last.request_id, last.first, last.tokens, finish, reason, None, last.routes)
        return chunks

    def _places(self, asked: AskedText) -> tuple[list[int], bool]:
        """Where its tokens are in the recording, and whether the last one of them ends it."""
        spans = self._by_topic.get(asked.topic, self._by_topic[""])
        places: list[int] = []
        at = asked.seed
        while True:
            start, end, finished = spans[at % len(spans)]
            at += 1
            length = len(places) + end - start
            if finished and not asked.ignore_eos and asked.min_tokens < length <= asked.max_tokens:
                return places + list(range(start, end)), True
            # The token that ends an answer is none of a longer one.
            places += range(start, end - 1 if finished and end - start > 1 else end)
            if len(places) >= asked.max_tokens:
                return places[: asked.max_tokens], False

    def _stop(self, tokens: list[int], asked: AskedText) -> int:
        """How many tokens it has until one at which it is to stop; 0 if there is none."""
        if not asked.stop_ids:
            return 0
        found = (at for at, token in enumerate(tokens, 1) if token in asked.stop_ids and at > asked.min_tokens)
        return next(found, 0)

    def _routed(self, chunks: list[Chunk], places: list[int], asked: AskedText) -> list[Chunk]:
        """The same with routes. Those of its prompt, which came with its first token, are those of so many tokens that
        lie before it in the recording."""
        assert self._routes is not None
        prompt = np.arange(places[0] - asked.prompt_tokens + 1, places[0] + 1) % len(self._routes)
        routes = [self._routes[prompt], *(self._routes[place : place + 1] for place in places[1:])]
        return [
            Chunk(chunk.request_id, chunk.first, chunk.tokens, routes=rows.tobytes())
            for chunk, rows in zip(chunks, routes, strict=False)
        ]
