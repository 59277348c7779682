"""vLLM's outputs as chunks, and requests of our own that no client waits for."""

from vllm import SamplingParams
from vllm.v1.engine import EngineCoreOutput, EngineCoreRequest

from serving.token_source.logprob_codec import pack
from serving.types import Chunk

PROBED = 32
"""Tokens of a probe's prompt, where the context has room for them."""


def probe(request_id: str, tokens: int, context: int) -> EngineCoreRequest:
    """Return a request of our own, which no client waits for, of no more tokens than the context has."""
    return EngineCoreRequest(
        request_id=request_id,
        prompt_token_ids=list(range(1, 1 + max(1, min(PROBED, context - tokens)))),
        mm_features=None,
        sampling_params=SamplingParams(max_tokens=tokens, seed=0, ignore_eos=True),
        pooling_params=None,
        arrival_time=0.0,
        lora_request=None,
        cache_salt=None,
        data_parallel_rank=None,
    )


def to_chunk(output: EngineCoreOutput, position: int) -> Chunk:
    """Return vLLM's output of one step of one request as a chunk, without the token engine's own statistics."""
    finish = None if output.finish_reason is None else int(output.finish_reason)
    rich = output.new_logprobs is not None or output.new_prompt_logprobs_tensors is not None
    extra = routes = None
    if output.routed_experts is not None:
        # Apart from the part that the edge opens: the device has use for routes, and clients have not.
        routes, output.routed_experts = output.routed_experts.tobytes(), None
    if rich:
        output.prefill_stats = output.events = None
        extra = pack(output)
    return Chunk(output.request_id, position, output.new_token_ids, finish, output.stop_reason, extra, routes)
