"""Answer lengths: which share of the tokens that requests may have they take, learned from those that have ended."""

from serving.types import Request

# How much of each end goes into what is learned: the last thirty count for most.
ENDS = 0.03


# The size of requests that take all that they may.
ALL = 0


def size_of(request: Request) -> int:
    """Return by which doubling of `max_tokens` a request is told from others; `ALL` if it takes all of them."""
    return ALL if request.takes_all else request.max_tokens.bit_length()


class AnswerLengths:
    """The mean share of their `max_tokens` that requests took, for each doubling of `max_tokens`.

    One for all would not do: who leaves `max_tokens` out may have all of the context, and takes a hundredth of it,
    while others take all that they ask for. Nor would the mean length: of those that ask for less nobody takes so much.
    """

    def __init__(self) -> None:
        self._ended: dict[int, int] = {}
        self._shares: dict[int, float] = {}

    def learn(self, request: Request, made: int) -> None:
        """Learn from a request that ended with `made` tokens; nothing from one of which that was known."""
        if (size := size_of(request)) == ALL:
            return
        ended = self._ended[size] = self._ended.get(size, 0) + 1
        share = self._shares.get(size, 0.0)
        self._shares[size] = share + max(ENDS, 1 / ended) * (made / request.max_tokens - share)

    def share(self, size: int) -> float:
        """Return the share that requests of such a size are expected to take.

        Before one of them has ended, it is that of the nearest size, and before anything has, all: so promises are
        kept where all is taken, and where not, the first end, which an answer's time brings, tells better.
        """
        if size == ALL:
            return 1.0
        if (share := self._shares.get(size)) is not None:
            return share
        nearest = min(self._shares, key=lambda seen: abs(seen - size), default=None)
        return 1.0 if nearest is None else self._shares[nearest]
