"""What a release brings, as vLLM's output processor takes it."""

import pickle
from collections.abc import Iterable
from itertools import groupby

from vllm.v1.engine import EngineCoreOutput, FinishReason

from serving.flow import Chunk


def outputs_of(chunks: Iterable[Chunk]) -> list[EngineCoreOutput]:
    """The tokens that a step gave a request are one output, as those that vLLM itself speculates: one by one they would
    cost the front end as much each, and who comes last in a release would wait for all of it."""
    outputs = []
    for _, group in groupby(chunks, key=lambda chunk: (chunk.request_id, chunk.extra is None)):
        outputs += _together(list(group))
    return outputs


def _together(chunks: list[Chunk]) -> list[EngineCoreOutput]:
    """Those of one request, and all plain or none: what vLLM said beside the tokens comes with each."""
    last = chunks[-1]
    if last.extra is not None:
        return [pickle.loads(chunk.extra) for chunk in chunks if chunk.extra is not None]
    finish = None if last.finish is None else FinishReason(last.finish)
    tokens = [token for chunk in chunks for token in chunk.tokens]
    return [EngineCoreOutput(last.request_id, tokens, finish_reason=finish, stop_reason=last.stop_reason)]
