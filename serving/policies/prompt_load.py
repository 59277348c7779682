"""Prompt load: the prompts that a device computes for the tokens that it decodes, as it was of late."""

from math import exp
from typing import NamedTuple

MEMORY_S = 10.0
"""Emulated seconds of work after which two thirds are forgotten: longer than a crowd takes to begin, and shorter than a
load takes to change."""


class Crowd(NamedTuple):
    """A batch as its requests tell of it: `sequences` with those that could begin, and of those in the batch the mean
    `prompt` and `answer` in tokens. A step computes `most` tokens of prompts."""

    sequences: int = 0
    prompt: float = 0.0
    answer: float = 0.0
    most: int = 0

    @property
    def ratio(self) -> float:
        """Tokens of prompts to each one of an answer."""
        return self.prompt / self.answer if self.answer else 0.0


class PromptLoad(NamedTuple):
    """Answers of so many tokens (0: nobody knows), and prompts beside decoding: `ratio` tokens of them for each token
    decoded, `prompt` tokens long each.

    A step with any computes `beside` of them in its mode (`drafting` or not), and `most` at most. `crowd` sequences
    would decode, had all prompts been computed.
    """

    answer: float = 0.0
    ratio: float = 0.0
    prompt: float = 0.0
    beside: float = 0.0
    most: float = 0.0
    crowd: int = 0
    drafting: bool = False


NO_PROMPTS = PromptLoad()


class PromptMeter:
    """Measures the load: tokens of prompts, steps with prompts and tokens decoded, the latest counted most."""

    def __init__(self) -> None:
        self._prompts = self._steps = self._decoded = 0.0

    def note(self, worked_s: float, prompt_tokens: int, decoded: float) -> None:
        """Take note of `worked_s` of decoding, of `decoded` tokens and beside them `prompt_tokens` of prompts."""
        kept = exp(-worked_s / MEMORY_S)
        self._prompts = kept * self._prompts + prompt_tokens
        self._steps = kept * self._steps + (prompt_tokens > 0)
        self._decoded = kept * self._decoded + decoded

    def load(self, decoding: int, prompt_tokens: int, crowd: Crowd, drafting: bool) -> PromptLoad:
        """Return the load with a step of `decoding` sequences and `prompt_tokens` ahead, the last one being `drafting`
        or not.

        Prompts come in waves, one after the other and then none. So no more are expected for a token than requests have
        on the whole; and no more than there were of late, for the requests of a crowd may be the last.
        """
        steps = self._steps + (prompt_tokens > 0)
        if not steps:
            return PromptLoad(crowd.answer)
        prompts = self._prompts + prompt_tokens
        beside = prompts / steps
        return PromptLoad(
            crowd.answer,
            min(crowd.ratio, prompts / (self._decoded + decoding)),
            min(crowd.prompt, beside),
            beside,
            max(beside, crowd.most),
            max(crowd.sequences, decoding),
            drafting,
        )
