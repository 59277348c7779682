"""Are blocks hashed as a vLLM of the same algorithm hashes them?"""

import numpy as np
import pytest
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import get_hash_fn_by_name
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash, maybe_convert_block_hash
from vllm.v1.request import Request

from serving.edge.kv_events.prefixes import OwnPrefixes, VllmPrefixes

BLOCK = 16


@pytest.mark.parametrize("algorithm", ["sha256", "sha256_cbor"])
@pytest.mark.parametrize("salt", ["", "mine"])
@pytest.mark.parametrize("length", [1, 16, 47, 160])
def test_hashes_are_vllms(algorithm: str, salt: str, length: int) -> None:
    prompt = [7 * index % 4000 for index in range(length)]
    found = VllmPrefixes(algorithm, BLOCK).described(prompt, salt)
    hash_with = get_hash_fn_by_name(algorithm)
    init_none_hash(hash_with)
    theirs = Request(
        "a",
        prompt,
        SamplingParams(max_tokens=1),
        None,
        cache_salt=salt or None,
        block_hasher=get_request_block_hasher(BLOCK, hash_with),
    )
    assert found["blocks"] == [maybe_convert_block_hash(each) for each in theirs.block_hashes]
    assert np.frombuffer(found["prompt"], "<u4").tolist() == prompt and found["salt"] == salt


def test_without_a_follower_prompts_stay_where_they_are() -> None:
    assert OwnPrefixes(BLOCK).described(list(range(40)), "").keys() == {"blocks"}
    assert OwnPrefixes(0).described(list(range(40)), "") == {"blocks": []}
