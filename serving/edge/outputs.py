"""What a release brings, as vLLM's output processor takes it."""

import logging
from collections.abc import Iterable
from itertools import groupby

from vllm.v1.engine import EngineCoreOutput, FinishReason

from serving.token_source.logprob_codec import unpack
from serving.types import Chunk

log = logging.getLogger("foreserve")


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
        return [_opened(chunk) for chunk in chunks]
    finish = None if last.finish is None else FinishReason(last.finish)
    tokens = [token for chunk in chunks for token in chunk.tokens]
    return [EngineCoreOutput(last.request_id, tokens, finish_reason=finish, stop_reason=last.stop_reason)]


def _opened(chunk: Chunk) -> EngineCoreOutput:
    """What vLLM said; its tokens alone if that can't be read, as they are not to be lost with it."""
    try:
        return unpack(chunk)
    except ValueError as error:
        log.error("What came with a token of request %s cannot be read: %s.", chunk.request_id, error)
        finish = None if chunk.finish is None else FinishReason(chunk.finish)
        return EngineCoreOutput(chunk.request_id, chunk.tokens, finish_reason=finish, stop_reason=chunk.stop_reason)
