"""A request that the token source makes tokens of."""

from dataclasses import dataclass, field

from vllm.v1.engine import EngineCoreRequest

from serving.types import Chunk


@dataclass(slots=True)
class LiveRequest:
    """A request whose client still waits: the tokens made of it, and the number that the device has taken.

    `known`: tokens that an earlier engine made, which are made again.
    """

    request: EngineCoreRequest
    device: int
    known: list[int] = field(default_factory=list)
    chunks: list[Chunk] = field(default_factory=list)
    made: int = 0
    taken: int = 0
    finished: bool = False

    @property
    def lead(self) -> int:
        """Tokens ahead of the device; tokens made again count as taken: the device has or had them."""
        return self.made - max(self.taken, len(self.known))

    @property
    def tokens(self) -> list[int]:
        """All tokens that any engine has made of it."""
        made = [token for chunk in self.chunks for token in chunk.tokens]
        return made if len(made) > len(self.known) else self.known
