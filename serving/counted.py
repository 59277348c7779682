"""Tokens that nobody reads: requests have as many as they may have, and all of them are there at once."""

from serving.flow import Chunk

LENGTH = 1  # vLLM's number for a request that ended because it had all its tokens


class Counted:
    """Stands in for a device's buffers (`serving.tokens`) in virtual time, and tells of first and last tokens only.

    `given` is what was taken last, by request.
    """

    def __init__(self) -> None:
        self.given: dict[str, int] = {}
        # Of each request, how many tokens it has had, and how many are to come.
        self._requests: dict[str, list[int]] = {}

    def open(self, request_id: str, taken: int, left: int) -> None:
        """Expect a request that has `taken` tokens, and has `left` to come."""
        self._requests[request_id] = [taken, left]

    def close(self, request_id: str) -> None:
        """Drop a request."""
        self._requests.pop(request_id, None)

    def push(self, chunks: list[Chunk]) -> list[Chunk]:
        """Nothing comes in."""
        return []

    def take(self, wanted: dict[str, int]) -> tuple[list[Chunk], int]:
        """The next tokens of each request, as many as are `wanted`, or up to its last. Of those there are chunks that
        have a request's first or last token, with ranges for tokens. There are no underruns."""
        self.given = wanted
        chunks = []
        for id, count in wanted.items():
            request = self._requests.get(id)
            if request is None:
                continue
            taken, left = request
            if taken and count < left:  # what nearly all do, nearly always
                request[0], request[1] = taken + count, left - count
            else:
                chunks.append(self._edge(id, taken, min(count, left), left))
        return chunks, 0

    def _edge(self, id: str, taken: int, given: int, left: int) -> Chunk:
        if given == left:
            del self._requests[id]
        else:
            self._requests[id] = [taken + given, left - given]
        tokens = range(taken, taken + given)
        return Chunk(id, taken, tokens, LENGTH if given == left else None)  # type: ignore[arg-type]

    def owed(self) -> int:
        """Nothing."""
        return 0
