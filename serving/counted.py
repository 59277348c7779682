"""Tokens that nobody reads: requests have as many as they may have, and all of them are there at once."""

from serving.flow import Chunk

LENGTH = 1  # vLLM's number for a request that ended because it had all its tokens


class Counted:
    """Stands in for a device's buffers (`serving.tokens`) in virtual time. Chunks have ranges for tokens."""

    def __init__(self) -> None:
        self._left: dict[str, tuple[int, int]] = {}

    def open(self, request_id: str, taken: int, left: int) -> None:
        """Expect a request that has `taken` tokens, and has `left` to come."""
        self._left[request_id] = taken, left

    def close(self, request_id: str) -> None:
        """Drop a request."""
        self._left.pop(request_id, None)

    def push(self, chunks: list[Chunk]) -> list[Chunk]:
        """Nothing comes in."""
        return []

    def take(self, wanted: dict[str, int]) -> tuple[list[Chunk], int]:
        """The next tokens of each request, as many as are `wanted`, or up to its last. No underruns."""
        chunks = []
        for id, count in wanted.items():
            if id not in self._left:
                continue
            taken, left = self._left[id]
            given = min(count, left)
            if given == left:
                del self._left[id]
            else:
                self._left[id] = taken + given, left - given
            tokens = range(taken, taken + given)
            chunks.append(Chunk(id, taken, tokens, LENGTH if given == left else None))  # type: ignore[arg-type]
        return chunks, 0

    def owed(self) -> int:
        """Nothing."""
        return 0
