"""Prefix hashes: name the whole blocks that prompts begin with, so that equal prefixes are found."""

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

ID_BYTES = 4
HASH_BYTES = 8
POSITIVE = 2**63 - 1


def block_hashes(token_ids: Sequence[int], block_tokens: int, salt: str = "") -> list[int]:
    """Return a hash of 63 bits for each whole block of a prompt, over all tokens up to the block's end.

    Prompts of one `salt` (vLLM's `cache_salt`) that begin with the same k blocks share the first k hashes, and none
    after them. Tokens beyond the last whole block have no hash.
    """
    whole = len(token_ids) // block_tokens
    tokens = np.array(token_ids[: whole * block_tokens], dtype="<i4").tobytes()
    size = block_tokens * ID_BYTES
    # The chain is the hash's own state: each block is fed to it once.
    chain = blake2b(digest_size=HASH_BYTES, key=blake2b(salt.encode(), digest_size=32).digest() if salt else b"")
    hashes = []
    for start in range(0, whole * size, size):
        chain.update(tokens[start : start + size])
        hashes.append(int.from_bytes(chain.copy().digest(), "little") & POSITIVE)
    return hashes
