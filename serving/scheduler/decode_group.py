"""Decode group: sequences that decode in lockstep, each step giving each of them a token.

One count of steps stands for the progress of all, so a plan costs time by the sequences that join, leave or need a
block, not by all that run. A member's own fields are stale until it leaves.
"""

import heapq
from collections.abc import Iterable
from itertools import compress

from serving.scheduler.kv_cache import HeldBlocks
from serving.scheduler.sequence import Sequence
from serving.types import Request


class DecodeGroup:
    """Members in order of admission, and `count`, the steps made since the group began.

    With `lead` tokens of the KV cache beyond what it has computed, a member has room for its next step.
    """

    def __init__(self, block_tokens: int, ahead: int) -> None:
        self._block, self._lead = block_tokens, ahead
        self._begin()

    def _begin(self) -> None:
        self.members: dict[str, Sequence] = {}
        self.count = 0
        # The count for whose next step members were given blocks last. Of those who came since: blocks that they have
        # beyond what they would have had, had they been here then.
        self._given, self._more = 0, dict[str, int]()
        # How many members need a block at the same counts: those at which (count + class) % block is 0.
        self._classes = [0] * self._block
        # When members end, by count; those who left before are passed over.
        self._ends: list[tuple[int, int, Sequence]] = []
        # A batch's columns; numbers are as they were, or would have been, at count 0. `_stale` if members have left.
        self._ids: list[str] = []
        self._requests: list[Request] = []
        self._context: list[int] = []
        self._released: list[int] = []
        self._lasts: list[int] = []
        self._stale = False

    def __len__(self) -> int:
        return len(self.members)

    def join(self, sequence: Sequence) -> None:
        """Add a sequence, admitted after all members, with one token to compute."""
        count = self.count
        self._tidy()
        sequence.since = count
        level = sequence.computed + self._lead - count
        self.members[sequence.id] = sequence
        self._classes[level % self._block] += 1
        self._more[sequence.id] = sequence.held.blocks - (level + self._given) // self._block - 1
        last = count + sequence.remaining
        heapq.heappush(self._ends, (last, sequence.order, sequence))
        self._ids = [*self._ids, sequence.id]  # batches that were made have the list that was
        self._requests.append(sequence.request)
        self._context.append(sequence.computed - count)
        self._released.append(sequence.released - count)
        self._lasts.append(last)

    def leave(self, sequence: Sequence) -> None:
        """Remove a member and bring its fields up to date."""
        level = sequence.computed + self._lead - sequence.since
        del self.members[sequence.id]
        self._classes[level % self._block] -= 1
        if self._more.pop(sequence.id, None) is None:
            _hold(sequence.held, (level + self._given) // self._block + 1)
        sequence.room = sequence.held.blocks * self._block
        steps = self.count - sequence.since
        if steps:
            sequence.advance(steps, steps)
        self._stale = True

    def part(self) -> dict[str, Sequence]:
        """Remove all members and return them by id, in order of admission."""
        members = dict(self.members)
        for sequence in members.values():
            self.leave(sequence)
        self._begin()
        return members

    def ended(self) -> Iterable[Sequence]:
        """Return the members that have all their tokens, in order of admission, without removing them."""
        ended = []
        while self._ends and self._ends[0][0] <= self.count:
            last = heapq.heappop(self._ends)
            if self._holds(last):
                ended.append(last[2])
        return sorted(ended, key=lambda each: each.order)

    @property
    def left(self) -> int:
        """Return the steps until the first member ends. The group must not be empty."""
        while not self._holds(self._ends[0]):
            heapq.heappop(self._ends)
        return self._ends[0][0] - self.count

    def _holds(self, last: tuple[int, int, Sequence]) -> bool:
        """Tell whether an entry belongs to a present member's last admission."""
        _, order, sequence = last
        return self.members.get(sequence.id) is sequence and sequence.order == order

    @property
    def decoded(self) -> bool:
        """Tell whether a member has had more than its first token since its admission."""
        return any(each.decoded or each.since < self.count for each in self.members.values())

    def wanted(self, beside: Iterable[Sequence] = ()) -> int:
        """Return the number of KV blocks that members lack for their next step, and who decodes `beside` them."""
        whole, rest = divmod(self.count - self._given, self._block)
        short = sum([self._classes[-at % self._block] for at in range(self.count - rest + 1, self.count + 1)])
        lead, size = self._lead, self._block
        lacking = ((each.computed + lead) // size + 1 - each.held.blocks for each in beside if each.decodes)
        return whole * len(self.members) + short - sum(self._more.values()) + sum(max(0, each) for each in lacking)

    def give(self) -> None:
        """Record that members now hold the wanted blocks."""
        self._given = self.count
        self._more.clear()

    @property
    def least_in_hand(self) -> int:
        """Return the KV tokens that every member has room for once the wanted blocks are given."""
        return self._lead + 1

    @property
    def in_hand(self) -> int:
        """Return the KV tokens that each member has room for once the wanted blocks are given."""
        size = self._block
        fewest = next(place for place in range(size, 0, -1) if self._classes[(place - 1 - self.count) % size])
        return size - (fewest - 1) + self._lead

    def ids(self) -> list[str]:
        """Return the members' ids. Do not modify the list."""
        self._tidy()
        return self._ids

    def requests(self) -> list[Request]:
        """Return the members' requests. Do not modify the list."""
        self._tidy()
        return self._requests

    def context(self) -> list[int]:
        """Return each member's tokens in the KV cache."""
        self._tidy()
        count = self.count
        return [each + count for each in self._context]

    def released(self) -> list[int]:
        """Return the tokens that each member has had."""
        self._tidy()
        count = self.count
        return [each + count for each in self._released]

    def remaining(self) -> list[int]:
        """Return the tokens that each member may yet have."""
        self._tidy()
        count = self.count
        return [each - count for each in self._lasts]

    def _tidy(self) -> None:
        if self._stale:
            kept = [id in self.members for id in self._ids]
            self._ids = list(compress(self._ids, kept))
            self._requests = list(compress(self._requests, kept))
            self._context = list(compress(self._context, kept))
            self._released = list(compress(self._released, kept))
            self._lasts = list(compress(self._lasts, kept))
            self._stale = False


def _hold(held: HeldBlocks, blocks: int) -> None:
    """Give a sequence `blocks` blocks of its own, which the group has taken for it."""
    held.own = blocks - len(held.shared)
