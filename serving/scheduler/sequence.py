"""A request as the scheduler tracks it."""

from dataclasses import dataclass, field

from serving.scheduler.kv_cache import HeldBlocks
from serving.types import Request


@dataclass(slots=True)
class Sequence:
    """A request with how many tokens it has (`length`) and may yet have (`remaining`), and how many lie in the KV cache
    (`computed`), in which its blocks have `room`. Plain fields, as each step asks each sequence for them.

    While it waits, `kept` of them are still to be had: begun on another instance of the device, or `spilled` to LPDDR.
    `decoded`: tokens that it had since it was last let in, but for the first. While it decodes in step with others, all
    this is as it was at their count `since` (`serving.scheduler.decode_group`).
    """

    id: str
    request: Request
    released: int
    length: int
    remaining: int
    computed: int = 0
    room: int = 0
    kept: int = 0
    spilled: bool = False
    decoded: int = 0
    order: int = 0
    since: int = 0
    held: HeldBlocks = field(default_factory=HeldBlocks)

    @staticmethod
    def of(request: Request) -> "Sequence":
        """Return a waiting sequence. A request begun elsewhere resumes, with the KV cache it still has."""
        length = request.prompt_tokens + request.released
        kept = length - 1 if request.released and not request.kv_lost else 0
        return Sequence(request.id, request, request.released, length, request.max_tokens - request.released, kept=kept)

    @property
    def left(self) -> int:
        """Return the tokens to compute before the next one comes out: one, if it decodes."""
        return self.length - self.computed

    @property
    def decodes(self) -> bool:
        """Tell whether its next token follows upon one that came out; a prompt's only, or last, one does not."""
        return self.length - self.computed == 1 and self.released > 0

    def advance(self, new: int, emitted: int) -> None:
        """Add `new` computed tokens and `emitted` released ones."""
        if self.decodes:
            self.decoded += emitted
        self.computed += new
        self.released += emitted
        self.length += emitted
        self.remaining -= emitted
