"""Hashes of a prompt's blocks: equal as far as prompts are, and no further."""

import struct
from hashlib import blake2b

from hypothesis import given
from hypothesis import strategies as st

from serving.scheduler.prefix_hash import BlockChain, block_hashes

TOKENS = st.lists(st.integers(0, 200_000), max_size=200)


@given(TOKENS, TOKENS, TOKENS, st.integers(1, 32))
def test_prompts_have_as_many_equal_hashes_as_equal_blocks(
    shared: list[int], one: list[int], other: list[int], block: int
) -> None:
    first, second = shared + one, shared + other
    same = next(
        (i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(map(len, (first, second)))
    )
    hashes = [block_hashes(prompt, block) for prompt in (first, second)]
    assert [len(found) for found in hashes] == [len(first) // block, len(second) // block]
    equal = [a == b for a, b in zip(*hashes, strict=False)]
    assert equal == [(i + 1) * block <= same for i in range(len(equal))]
    assert all(0 <= hash < 2**63 for hash in hashes[0])


@given(TOKENS.filter(lambda tokens: len(tokens) >= 4), st.text(min_size=1))
def test_a_salt_changes_every_hash(tokens: list[int], salt: str) -> None:
    plain, salted = block_hashes(tokens, 4), block_hashes(tokens, 4, salt)
    assert not set(plain) & set(salted)
    assert salted == block_hashes(tokens, 4, salt)


@given(TOKENS, st.lists(st.integers(0, 200), max_size=3), st.integers(1, 32))
def test_a_sequence_that_goes_on_has_the_hash_of_all_tokens_up_to_each_block(
    tokens: list[int], cuts: list[int], block: int
) -> None:
    chain, start = BlockChain(block), 0
    for end in sorted([*cuts, len(tokens)]):
        chain, start = chain.extended(tokens[start:end]), end
    ends = [end * block for end in range(1, len(tokens) // block + 1)]
    packed = [struct.pack(f"<{end}i", *tokens[:end]) for end in ends]
    whole = [int.from_bytes(blake2b(data, digest_size=8).digest(), "little") % 2**63 for data in packed]
    assert chain.hashes == whole == block_hashes(tokens, block)


def test_hashes_are_the_same_in_every_process() -> None:
    # Devices that come back, and other hosts, must find what they had.
    assert block_hashes(range(8), 4) == [8835567048546131446, 1540592555457660432]
