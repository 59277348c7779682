"""The emulated KV cache as counts of blocks: how many each sequence holds, and which prompt blocks can be shared.

Blocks of one size, as in vLLM: a block is its sequence's own until its tokens are all computed; then, if it is a whole
block of a prompt, others that begin alike may share it. An unused block stays until its room is wanted: the least
recently used goes first, and of one prompt the end before the beginning. Nothing is stored but numbers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Hash = int


@dataclass(slots=True)
class HeldBlocks:
    """One sequence's blocks: those that it shares, from its first token on, and those of its own."""

    shared: list[Hash] = field(default_factory=list)
    own: int = 0

    @property
    def blocks(self) -> int:
        return len(self.shared) + self.own


class KvCache:
    """`capacity` blocks of `block_tokens` tokens each. Every call takes constant time for each block that changes."""

    def __init__(self, capacity_tokens: int, block_tokens: int) -> None:
        self.block_tokens = block_tokens
        self._own = 0
        self._users: dict[Hash, int] = {}
        # Those of them without users, the least recently used first.
        self._idle: dict[Hash, None] = {}
        # Hears of each shared block that is evicted.
        self.on_evict: Callable[[Hash], object] = _forget
        self._last_name = 0
        self.resize(capacity_tokens)

    def resize(self, capacity_tokens: int) -> None:
        """Set the capacity in tokens, and evict what has no room. Below what is in use, `free` is negative until
        sequences leave."""
        self.capacity = capacity_tokens // self.block_tokens
        self._evict()

    @property
    def used(self) -> int:
        """Blocks that sequences hold."""
        return self._own + len(self._users) - len(self._idle)

    @property
    def used_tokens(self) -> int:
        """Tokens that the used blocks have room for."""
        return self.used * self.block_tokens

    @property
    def free(self) -> int:
        """Blocks that a sequence may take."""
        return self.capacity - self.used

    def spare(self, sequences: int) -> int:
        """Return the free tokens that each of `sequences` sequences may take."""
        return self.free // max(1, sequences) * self.block_tokens

    def blocks(self, tokens: int) -> int:
        """Return the blocks that `tokens` tokens of a sequence take."""
        return -(-tokens // self.block_tokens)

    def known(self, hashes: Sequence[Hash]) -> int:
        """Return how many of a prompt's first blocks are in the cache."""
        count = 0
        for each in hashes:
            if each not in self._users:
                break
            count += 1
        return count

    def needed(self, tokens: int, hashes: Sequence[Hash] = ()) -> int:
        """Return the free blocks that a new sequence of `tokens` tokens takes, its first blocks `hashes` being
        cached."""
        return self.blocks(tokens) - len(hashes) + sum(each in self._idle for each in hashes)

    def share(self, hashes: Sequence[Hash]) -> HeldBlocks:
        """Return the holding of a new sequence that shares the cached blocks `hashes`."""
        for each in hashes:
            self._use(each)
        return HeldBlocks(list(hashes))

    def grow(self, held: HeldBlocks, tokens: int) -> None:
        """Give a sequence blocks of its own for `tokens` tokens, evicting idle ones."""
        more = self.blocks(tokens) - held.blocks
        if more > 0:
            held.own += more
            self._own += more
            self._evict()

    def take(self, blocks: int) -> None:
        """Take `blocks` blocks for sequences that will each record what they hold later."""
        self._own += blocks
        self._evict()

    def found(self, hashes: Sequence[Hash], length: int) -> Sequence[Hash]:
        """Return the first blocks of a prompt that are in the cache, for a sequence of `length` tokens. Its last token
        is computed all the same, though it be known: it brings the next one."""
        whole = hashes[: (length - 1) // self.block_tokens]
        return whole[: self.known(whole)]

    def publish(self, held: HeldBlocks, hashes: Sequence[Hash], tokens: int) -> list[int]:
        """Share the whole blocks `hashes` of a prompt of which `tokens` tokens are computed; return which of them the
        cache lacked, by their place in the prompt."""
        whole, stored = min(len(hashes), tokens // self.block_tokens), []
        for place in range(len(held.shared), whole):
            each = hashes[place]
            held.own -= 1
            self._own -= 1
            held.shared.append(each)
            if each in self._users:  # another has computed the same meanwhile: one copy is enough
                self._use(each)
            else:
                self._users[each] = 1
                stored.append(place)
        return stored

    def share_unnamed(self, held: HeldBlocks, count: int) -> list[Hash]:
        """Share a sequence's first `count` blocks, in so far as they are its own, under names that no prompt has;
        return these."""
        names = [self._last_name - more for more in range(1, count - len(held.shared) + 1)]
        for each in names:
            self._users[each] = 1
        held.own -= len(names)
        self._own -= len(names)
        held.shared += names
        self._last_name -= len(names)
        return names

    def rename(self, names: Sequence[Hash], hashes: Sequence[Hash], first: int) -> list[int]:
        """Give idle blocks `names` the `hashes` of a prompt from its block `first` on, and have all of that prompt be
        the last that was used. Return which of them the cache lacked, by their place; those beyond it are dropped."""
        stored = []
        for place, name in enumerate(names, start=first):
            del self._users[name], self._idle[name]
            if place < len(hashes) and hashes[place] not in self._users:
                self._users[hashes[place]] = 0
                self._idle[hashes[place]] = None
                stored.append(place)
        for each in reversed(hashes):
            if each in self._idle:
                del self._idle[each]
                self._idle[each] = None
        return stored

    def release(self, held: HeldBlocks) -> None:
        """Take back what a sequence held when it leaves."""
        self._own -= held.own
        for each in reversed(held.shared):
            self._users[each] -= 1
            if not self._users[each]:
                self._idle[each] = None
        self._evict()

    def clear(self) -> bool:
        """Forget the blocks that nobody uses, unless sequences hold any. Return whether the cache is empty now."""
        if self.used:
            return False
        self._users.clear()
        self._idle.clear()
        return True

    def _use(self, each: Hash) -> None:
        self._idle.pop(each, None)
        self._users[each] += 1

    def _evict(self) -> None:
        while self._idle and self._own + len(self._users) > self.capacity:
            oldest = next(iter(self._idle))
            del self._idle[oldest], self._users[oldest]
            self.on_evict(oldest)


def _forget(each: Hash) -> None:
    """Do nothing about an evicted block."""
