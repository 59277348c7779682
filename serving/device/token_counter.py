"""Token buffer for virtual time: counts tokens, stores none."""

from serving.types import Batch, Chunk

LENGTH = 1  # vLLM's number for a request that ended because it had all its tokens


class TokenCounter:
    """Stand in for a device's `TokenBuffer` in virtual time; report chunks only at a request's first and last token.

    `given` maps request ids to the tokens taken last.
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
        """Begin a batch, which says how many tokens each request has had and how many are to come."""
        self._batch, self._had = batch, 0
        self._fresh, self._left = 0 in batch.released, min(batch.remaining)

    def push(self, chunks: list[Chunk], source: int = 0) -> list[Chunk]:
        """Ignore the chunks: no source sends tokens in virtual time. Return none as overdue."""
        return []

    def take(self, wanted: dict[str, int]) -> tuple[list[Chunk], int]:
        """Take the next `wanted[id]` tokens of each request, or all it has left. Return the chunks that contain a
        request's first or last token (a range stands for the token ids), and 0 underruns."""
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
        """Return 0: no token is ever overdue."""
        return 0
