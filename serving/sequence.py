"""A request in the scheduler's hands."""

from dataclasses import dataclass, field

from serving.flow import Request
from serving.kv_cache import Held


@dataclass(slots=True)
class Sequence:
    """A request with how many tokens it has (`length`), and how many of them lie in the KV cache (`computed`).

    While it waits, `kept` of them are still to be had: begun on another instance of the device, or `spilled` to LPDDR.
    `decoded`: tokens that it had since it was last let in, but for the first.
    """

    request: Request
    released: int = 0
    computed: int = 0
    kept: int = 0
    spilled: bool = False
    decoded: int = 0
    order: int = 0
    held: Held = field(default_factory=Held)

    @property
    def length(self) -> int:
        return self.request.prompt_tokens + self.released

    @property
    def remaining(self) -> int:
        return self.request.max_tokens - self.released

    @property
    def left(self) -> int:
        """Tokens that are to be computed before it can have another: one, if it decodes."""
        return self.length - self.computed

    @property
    def decodes(self) -> bool:
        return self.left == 1 and self.computed > 0

    def advance(self, new: int, emitted: int) -> None:
        """`new` of its tokens were computed, and `emitted` came out."""
        self.decoded += emitted if self.decodes else 0
        self.computed += new
        self.released += emitted
