"""Prefixes of prompts, as schedulers share them: their blocks by our own hashes, or by vLLM's for who follows the
cache."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from vllm.utils.hashing import get_hash_fn_by_name
from vllm.v1.core.kv_cache_utils import hash_block_tokens, init_none_hash

from serving.scheduler.prefix_hash import block_hashes

MASK = 2**64 - 1


class Prefixes(Protocol):
    """Describes the prefix of a prompt. Blocks have `block_tokens` tokens; 0: nothing is shared."""

    block_tokens: int

    def described(self, prompt: Sequence[int], salt: str) -> dict[str, Any]:
        """Return the fields of a `Request` that tell of its prompt's blocks."""


class OwnPrefixes:
    """Prefixes by hashes that are quick to make."""

    def __init__(self, block_tokens: int) -> None:
        """`block_tokens`: the size of the blocks that prompts may share; 0 if they share none."""
        self.block_tokens = block_tokens

    def described(self, prompt: Sequence[int], salt: str) -> dict[str, Any]:
        """Return the field `blocks`."""
        return {"blocks": block_hashes(prompt, self.block_tokens, salt) if self.block_tokens else []}


class VllmPrefixes:
    """Prefixes by the hashes that a vLLM with the same algorithm has for them, and publishes."""

    def __init__(self, algorithm: str, block_tokens: int) -> None:
        """`algorithm` is one of vLLM's `--prefix-caching-hash-algo`."""
        self._hash = get_hash_fn_by_name(algorithm)
        self.block_tokens = block_tokens
        init_none_hash(self._hash)

    def described(self, prompt: Sequence[int], salt: str) -> dict[str, Any]:
        """Return the fields `blocks`, `prompt` and `salt`."""
        size, parent, blocks = self.block_tokens, None, []
        for end in range(size, len(prompt) + 1, size):
            extra = (("cache_salt", salt),) if salt and end == size else None
            parent = hash_block_tokens(self._hash, parent, prompt[end - size : end], extra)
            # The part of it that vLLM's events have.
            blocks.append(int.from_bytes(parent, "big") & MASK)
        return {"blocks": blocks, "prompt": np.array(prompt, dtype="<u4").tobytes(), "salt": salt}
