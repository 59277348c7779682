"""Tokens that nobody reads: requests have as many as they may have, and all of them are there at once."""

from serving.types import Batch, Chunk

LENGTH = 1  # vLLM's number for a request that ended because it had all its tokens


class TokenCounter:
    """Stands in for a device's buffers (`token_buffer`) in virtual time, and tells of first and last tokens only.

    `given` is what was taken last, by request.
    """

    def __init__(self) -> None:
        self.given: dict[str, int] = {}
        self._batch: Batch | None = None
        # Of each request of the batch, how many tokens it has had in it; whether one had none before; and the fewest
        # that any had to come then.
        self._had = 0
        self._fresh = False
        self._left = 0

    def begin(self, batch: Batch) -> None:
        """A batch is to be carried out: it says how many tokens its requests had, and how many are to come."""
        self._batch, self._had = batch, 0
        self._fresh, self._left = 0 in batch.released, min(batch.remaining)

    def push(self, chunks: list[Chunk]) -> list[Chunk]:
        """Nothing comes in."""
        return []

    def take(self, wanted: dict[str, int]) -> tuple[list[Chunk], int]:
        """The next tokens of each request, as many as are `wanted`, or up to its last. Of those there are chunks that
        have a request's first or last token, with ranges for tokens. There are no underruns."""
        self.given = wanted
        most = max(wanted.values(), default=0)
        chunks = self._edges(wanted) if self._fresh or self._left - self._had <= most else []
        # That this is right for all alike matters to batches of several steps: who drafts has one.
        self._had += most
        self._fresh = False
        return chunks, 0

    def _edges(self, wanted: dict[str, int]) -> list[Chunk]:
        batch, had, chunks = self._batch, self._had, []
        assert batch is not None
        for id, released, remaining in zip(batch.ids, batch.released, batch.remaining, strict=True):
            count, taken, left = wanted.get(id, 0), released + had, remaining - had
            if count and (not taken or count >= left):
                tokens = range(taken, taken + min(count, left))
                chunks.append(Chunk(id, taken, tokens, LENGTH if count >= left else None))  # type: ignore[arg-type]
        return chunks

    def owed(self) -> int:
        """Nothing."""
        return 0
