"""Converts a release's chunks into outputs for vLLM's output processor."""

import logging
from collections.abc import Iterable
from itertools import groupby

from vllm.v1.engine import EngineCoreOutput, FinishReason
from vllm.v1.metrics.stats import PrefillStats

from serving.flight import Flight, Sink
from serving.token_source.logprob_codec import unpack
from serving.types import Chunk

log = logging.getLogger("foreserve")


def by_sink(news: Iterable[tuple[Flight, Chunk]]) -> dict[Sink | None, list[tuple[Flight, Chunk]]]:
    """Return a release's news by their flights' sink, in order, without what edges have from the device itself: an edge
    gets one message, however its requests are mixed with those of others."""
    apart: dict[Sink | None, list[tuple[Flight, Chunk]]] = {}
    for flight, chunk in news:
        sink = flight.sink
        if sink is None or sink.inbox is None or not chunk.direct:
            apart.setdefault(sink, []).append((flight, chunk))
    return apart


def outputs_of(chunks: Iterable[Chunk]) -> list[EngineCoreOutput]:
    """Return the chunks as outputs, one for all tokens that a step gave a request, as with vLLM's own speculation:
    separate outputs would cost the front end as much each, and delay the last of a release."""
    chunks = list(chunks)
    if len({chunk.request_id for chunk in chunks}) == len(chunks):
        return [_alone(chunk) for chunk in chunks]
    outputs = []
    for _, group in groupby(chunks, key=lambda chunk: (chunk.request_id, chunk.extra is None)):
        outputs += _together(list(group))
    return outputs


def _alone(chunk: Chunk) -> EngineCoreOutput:
    """Return the output of a chunk that is its request's only one: of nearly each, where a device decodes plainly."""
    if chunk.extra is None and chunk.finish is None and not (chunk.cached or chunk.created):
        return EngineCoreOutput(chunk.request_id, chunk.tokens)
    return _together([chunk])[0]


def _together(chunks: list[Chunk]) -> list[EngineCoreOutput]:
    """Merge the plain chunks of one request into one output; chunks with more from vLLM stay apart."""
    last = chunks[-1]
    if last.extra is not None:
        return [_with_cached(_opened(chunk), chunk) for chunk in chunks]
    finish = None if last.finish is None else FinishReason(last.finish)
    tokens = [token for chunk in chunks for token in chunk.tokens]
    output = EngineCoreOutput(last.request_id, tokens, finish_reason=finish, stop_reason=last.stop_reason)
    return [_with_cached(output, chunks[0])]


def _with_cached(output: EngineCoreOutput, first: Chunk) -> EngineCoreOutput:
    """Say what the emulated prefix cache had of the prompt, and has since, as vLLM's own does with its first output."""
    if first.cached or first.created:
        output.prefill_stats = PrefillStats(
            num_cached_tokens=first.cached,
            num_local_cached_tokens=first.cached,
            num_cache_creation_tokens=first.created,
        )
    return output


def _opened(chunk: Chunk) -> EngineCoreOutput:
    """Decode vLLM's output; if it can't be decoded, return its tokens alone rather than lose them."""
    try:
        return unpack(chunk)
    except ValueError as error:
        log.error("The output with a token of request %s cannot be read, and is left out: %s.", chunk.request_id, error)
        finish = None if chunk.finish is None else FinishReason(chunk.finish)
        return EngineCoreOutput(chunk.request_id, chunk.tokens, finish_reason=finish, stop_reason=chunk.stop_reason)
