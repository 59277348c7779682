"""Prefixes of prompts, as schedulers share them: their blocks by our own hashes, or by vLLM's for who follows the
cache."""

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, Protocol

import numpy as np
from vllm.utils.hashing import get_hash_fn_by_name
from vllm.v1.core.kv_cache_utils import hash_block_tokens, init_none_hash

from serving.call import Prefix
from serving.scheduler.prefix_hash import BlockChain

MASK = 2**64 - 1


class Prefixes(Protocol):
    """Makes prefixes. Blocks have `block_tokens` tokens; 0: nothing is shared."""

    block_tokens: int

    def empty(self, salt: str) -> Prefix:
        """Return the prefix of no tokens, under vLLM's `cache_salt` ("": none)."""


class OwnPrefixes:
    """Prefixes by hashes that are quick to make."""

    def __init__(self, block_tokens: int) -> None:
        """`block_tokens`: the size of the blocks that prompts may share; 0 if they share none."""
        self.block_tokens = block_tokens

    def empty(self, salt: str) -> Prefix:
        """Return the prefix of no tokens."""
        return OwnPrefix(BlockChain(self.block_tokens, salt) if self.block_tokens else None)


class OwnPrefix:
    """A prefix by our own hashes; without a chain nothing is shared."""

    def __init__(self, chain: BlockChain | None) -> None:
        self._chain = chain

    @property
    def fields(self) -> dict[str, Any]:
        """The field `blocks`."""
        return {"blocks": [] if self._chain is None else self._chain.hashes}

    def extended(self, tokens: Sequence[int]) -> "OwnPrefix":
        """Return it with tokens more."""
        return self if self._chain is None else OwnPrefix(self._chain.extended(tokens))


class VllmPrefixes:
    """Prefixes by the hashes that a vLLM with the same algorithm has for them, and publishes."""

    def __init__(self, algorithm: str, block_tokens: int) -> None:
        """`algorithm` is one of vLLM's `--prefix-caching-hash-algo`."""
        self._hash = get_hash_fn_by_name(algorithm)
        self.block_tokens = block_tokens
        init_none_hash(self._hash)

    def empty(self, salt: str) -> Prefix:
        """Return the prefix of no tokens."""
        return VllmPrefix(self._hash, self.block_tokens, salt)


class VllmPrefix:
    """A prefix by vLLM's hashes, of no tokens yet: `parent` is the whole hash of the last block, and `rest` the tokens
    beyond it."""

    def __init__(self, hash_with: Callable[[Any], bytes], block_tokens: int, salt: str) -> None:
        self._hash, self._size = hash_with, block_tokens
        self._parent: Any = None
        self._rest: list[int] = []
        self.fields: dict[str, Any] = {"blocks": [], "prompt": b"", "salt": salt}
        """The fields `blocks`, `prompt` and `salt`."""

    def extended(self, tokens: Sequence[int]) -> "VllmPrefix":
        """Return it with tokens more."""
        longer, size, salt = copy(self), self._size, self.fields["salt"]
        blocks, rest = [*self.fields["blocks"]], [*self._rest, *tokens]
        for end in range(size, len(rest) + 1, size):
            extra = (("cache_salt", salt),) if salt and not blocks else None
            longer._parent = hash_block_tokens(self._hash, longer._parent, rest[end - size : end], extra)
            # The part of it that vLLM's events have.
            blocks.append(int.from_bytes(longer._parent, "big") & MASK)
        longer._rest = rest[len(rest) - len(rest) % size :]
        prompt = self.fields["prompt"] + np.array(tokens, dtype="<u4").tobytes()
        longer.fields = {"blocks": blocks, "prompt": prompt, "salt": salt}
        return longer
