"""Description of a request of vLLM's in our own terms: numbers, and hashes of its prompt."""

import random

from vllm.v1.engine import EngineCoreRequest

from serving.admission_request import AdmissionRequest
from serving.call import Choices
from serving.edge.kv_events.prefixes import Prefixes
from serving.types import Request


def describe(
    request: EngineCoreRequest, admitted: AdmissionRequest, choices: Choices, arrival_s: float, prefixes: Prefixes
) -> Request:
    """Return a request as schedulers see it, one of some `choices`, which arrived at an emulated instant.

    `prefixes` tells of the blocks of its prompt that may share keys and values.
    """
    params, prompt = request.sampling_params, request.prompt_token_ids
    if choices.prefix is None:
        choices.prefix = prefixes.empty(request.cache_salt or "").extended(prompt)
    return Request(
        id=request.request_id,
        arrival_s=arrival_s,
        prompt_tokens=len(prompt),
        max_tokens=params.max_tokens,
        seed=random.getrandbits(63) if params.seed is None else params.seed % 2**63,
        topic=admitted.topic,
        key=admitted.key,
        priority=admitted.priority,
        takes_all=params.ignore_eos,
        ttft_s=admitted.ttft_s,
        tpot_s=admitted.tpot_s,
        **choices.prefix.fields,
    )
