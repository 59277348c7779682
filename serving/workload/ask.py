"""A workload's request as numbers. Its prompt is made of segments, so that shared prefixes are known without text."""

from collections.abc import Sequence

import msgspec

from serving.workload.seeded_chance import MASK, POSITIVE, mix

USER, ASSISTANT, SYSTEM = "user", "assistant", "system"
# What agents have beside them: the tools that a model is offered, its call of one, and what that tells.
OFFER, CALL, TOOL = "offer", "call", "tool"


class Segment(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A piece of a prompt, `tokens` long: those of equal `id` are equal, token by token, for as long as both are.

    `role` is who says it, `topic` what it is about ("": nothing in particular).
    """

    id: int
    tokens: int
    role: str = USER
    topic: str = ""


class Ask(msgspec.Struct, frozen=True, array_like=True):
    """A request that arrives at `arrival_s` (seconds since the workload began) and wants `output_tokens` back.

    It is turn `turn` (from 0) of session `session`; a request on its own is a session of one turn. `topic`, `slo` and
    `key` are "" where the workload says nothing of them. An agent's request `calls` a tool: that is its output.
    """

    session: int
    turn: int
    arrival_s: float
    prompt: tuple[Segment, ...]
    output_tokens: int
    topic: str = ""
    slo: str = ""
    key: str = ""
    calls: bool = False

    @property
    def id(self) -> str:
        """Its name, which no other request of the workload has."""
        return f"{self.session}-{self.turn}"

    @property
    def prompt_tokens(self) -> int:
        """The prompt's length in tokens: the sum of its segments."""
        return sum(segment.tokens for segment in self.prompt)


def block_hashes(prompt: Sequence[Segment], block_tokens: int) -> list[int]:
    """Return a hash of 63 bits for each whole block of a prompt, over all tokens up to its end, as
    `scheduler.prefix_hash` does for real tokens: prompts that begin alike share the first ones."""
    hashes: list[int] = []
    before, start = 0, 0
    for segment in prompt:
        base, end = mix(before ^ segment.id), start + segment.tokens
        ends = range((start // block_tokens + 1) * block_tokens, end + 1, block_tokens)
        # A token is known by what comes before its segment, the segment, and its place in it.
        hashes += [mix((base + at - start) & MASK) & POSITIVE for at in ends]
        before, start = mix((base + segment.tokens) & MASK), end
    return hashes
