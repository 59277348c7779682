"""Is a request of vLLM's the same one on the other side?"""

import msgspec
import pytest
from vllm import SamplingParams
from vllm.sampling_params import StructuredOutputsParams
from vllm.v1.engine import EngineCoreRequest

from serving.token_source.request_codec import decode_request, encode_request

PARAMS = [
    SamplingParams(max_tokens=5, seed=2**62, temperature=0.3, top_p=0.9, ignore_eos=True),
    SamplingParams(stop=["a", "“"], min_tokens=2, logprobs=3, prompt_logprobs=0, logit_bias={3: -1.5}),
    SamplingParams(
        structured_outputs=StructuredOutputsParams(json={"type": "object"}), extra_args={"a": [1, {"b": None}]}
    ),
]


def request(params: SamplingParams) -> EngineCoreRequest:
    return EngineCoreRequest(
        request_id="a-0", prompt_token_ids=[1, 2, 3], mm_features=None, sampling_params=params, pooling_params=None,
        arrival_time=1.5, lora_request=None, cache_salt="salt", data_parallel_rank=1, external_req_id="a",
    )  # fmt: skip


@pytest.mark.parametrize("params", PARAMS, ids=range(len(PARAMS)))
def test_a_request_arrives_as_it_was(params: SamplingParams) -> None:
    sent = request(params)
    found = decode_request(encode_request(sent))
    assert repr(found) == repr(sent) and found.sampling_params == sent.sampling_params


@pytest.mark.parametrize("frames", [[], [b"\xff"], [msgspec.msgpack.encode({"request_id": 3})]])
def test_what_is_none_is_refused(frames: list[bytes]) -> None:
    with pytest.raises((ValueError, IndexError)):
        decode_request(frames)
