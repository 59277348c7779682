"""Prefix hashes: name the whole blocks that prompts begin with, so that equal prefixes are found."""

from collections.abc import Sequence
from copy import copy
from hashlib import blake2b

import numpy as np

ID_BYTES = 4
HASH_BYTES = 8
POSITIVE = 2**63 - 1


class BlockChain:
    """A sequence of tokens that may go on, with a hash of 63 bits for each of its whole blocks, over all tokens up to
    the block's end; it has none yet.

    Sequences of one `salt` (vLLM's `cache_salt`) that begin with the same k blocks share the first k hashes, and none
    after them. Tokens beyond the last whole block have no hash.
    """

    def __init__(self, block_tokens: int, salt: str = "") -> None:
        self.hashes: list[int] = []
        self._block_bytes, self._rest = block_tokens * ID_BYTES, b""
        # The chain is the hash's own state: each block is fed to it once.
        key = blake2b(salt.encode(), digest_size=32).digest() if salt else b""
        self._state = blake2b(digest_size=HASH_BYTES, key=key)

    def extended(self, token_ids: Sequence[int]) -> "BlockChain":
        """Return the sequence with tokens more. Only blocks that they complete are hashed."""
        longer, state, hashes = copy(self), self._state.copy(), self.hashes.copy()
        tokens, size = self._rest + np.array(token_ids, dtype="<i4").tobytes(), self._block_bytes
        whole = len(tokens) - len(tokens) % size
        for start in range(0, whole, size):
            state.update(tokens[start : start + size])
            hashes.append(int.from_bytes(state.copy().digest(), "little") & POSITIVE)
        longer.hashes, longer._state, longer._rest = hashes, state, tokens[whole:]
        return longer


def block_hashes(token_ids: Sequence[int], block_tokens: int, salt: str = "") -> list[int]:
    """Return the hash of each whole block of a prompt."""
    return BlockChain(block_tokens, salt).extended(token_ids).hashes
