"""Shared blocks of a device's KV cache: those of prompts, as they are computed, and of answers, once it is told what
they say: a scheduler knows how many tokens there are, and not which."""

from serving.scheduler.kv_cache import Hash, KvCache
from serving.scheduler.kv_journal import KvJournal
from serving.scheduler.sequence import Sequence
from serving.types import KvEvent, Request


class SharedBlocks:
    """Publishes blocks for prompts to come, and keeps a journal of that for whoever follows the cache.

    An ended sequence's blocks of its answer wait under names of no prompt until `name` tells theirs. They are evicted
    like any others.
    """

    def __init__(self, kv: KvCache, followed: bool) -> None:
        self._kv, self._journal = kv, KvJournal(followed, kv.block_tokens)
        kv.on_evict = self._evicted
        # By request, the place of its first block without a name, and what these are called for now.
        self._unnamed: dict[str, tuple[int, list[Hash]]] = {}
        self._owner: dict[Hash, str] = {}

    def publish(self, sequence: Sequence) -> None:
        """Share the whole blocks of a sequence's prompt that are computed."""
        request = sequence.request
        self._journal.store(request, self._kv.publish(sequence.held, request.blocks, sequence.computed))

    def release(self, sequence: Sequence, keep: bool) -> None:
        """Release a sequence's blocks; with `keep`, those of its answer wait for a name."""
        if keep:
            self._keep(sequence)
        self._kv.release(sequence.held)

    def _keep(self, sequence: Sequence) -> None:
        self.publish(sequence)
        if sequence.id in self._unnamed:
            return
        first, whole = len(sequence.held.shared), sequence.computed // self._kv.block_tokens
        if names := self._kv.share_unnamed(sequence.held, whole):
            self._unnamed[sequence.id] = first, names
            self._owner.update(dict.fromkeys(names, sequence.id))

    def name(self, request: Request) -> None:
        """Name the blocks of an ended request's answer: `request.blocks` are those of its prompt and answer together.
        Ignore a request of which there is nothing left."""
        if found := self._unnamed.pop(request.id, None):
            first, names = found
            for each in names:
                del self._owner[each]
            stored = self._kv.rename(names, request.blocks, first)
            self._journal.store(request, stored)

    def flush(self) -> bool:
        """Forget all blocks, unless sequences hold any. Return whether there are none now."""
        if done := self._kv.clear():
            self._unnamed.clear()
            self._owner.clear()
            self._journal.clear()
        return done

    def news(self) -> list[KvEvent]:
        """Return what was stored and evicted since the last time."""
        return self._journal.take()

    def _evicted(self, block: Hash) -> None:
        if (id := self._owner.pop(block, None)) is None:
            self._journal.evict(block)
            return
        _, names = self._unnamed[id]
        # Of one answer the end goes before the beginning.
        names.remove(block)
        if not names:
            del self._unnamed[id]
