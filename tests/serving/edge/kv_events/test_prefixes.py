"""Are blocks hashed as a vLLM of the same algorithm hashes them?"""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import get_hash_fn_by_name
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash, maybe_convert_block_hash
from vllm.v1.request import Request

from serving.edge.kv_events.prefixes import OwnPrefixes, Prefixes, VllmPrefixes

BLOCK = 16
TOKENS = st.lists(st.integers(0, 200_000), max_size=60)


@pytest.mark.parametrize("algorithm", ["sha256", "sha256_cbor"])
@pytest.mark.parametrize("salt", ["", "mine"])
@pytest.mark.parametrize("length", [1, 16, 47, 160])
def test_hashes_are_vllms(algorithm: str, salt: str, length: int) -> None:
    prompt = [7 * index % 4000 for index in range(length)]
    found = VllmPrefixes(algorithm, BLOCK).empty(salt).extended(prompt).fields
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
    assert OwnPrefixes(BLOCK).empty("").extended(list(range(40))).fields.keys() == {"blocks"}
    assert OwnPrefixes(0).empty("").extended(list(range(40))).fields == {"blocks": []}


@given(TOKENS, TOKENS, st.integers(1, 8), st.sampled_from(["", "mine"]))
@pytest.mark.parametrize("kind", [OwnPrefixes, partial(VllmPrefixes, "sha256_cbor")])
def test_what_goes_on_is_hashed_as_if_it_had_come_at_once(
    kind: Callable[[int], Prefixes], prompt: list[int], answer: list[int], block: int, salt: str
) -> None:
    empty = kind(block).empty(salt)
    begun = empty.extended(prompt)
    before = begun.fields
    assert begun.extended(answer).fields == begun.extended(answer).fields == empty.extended(prompt + answer).fields
    assert begun.fields == before == empty.extended(prompt).fields
