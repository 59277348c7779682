"""Prompt share: how much of a device's decoding time it has computed prompts in, of late."""

from math import exp

MEMORY_S = 10.0
"""Emulated seconds of work after which two thirds are forgotten: longer than a crowd takes to begin, and shorter than a
load takes to change."""


class PromptShare:
    """The share of decoding time with prompts, the latest counted most. `value` goes from 0, as at the start, to 1."""

    def __init__(self) -> None:
        self.value = 0.0

    def note(self, worked_s: float, beside: bool) -> None:
        """Take note of `worked_s` of decoding, `beside` prompts or not."""
        kept = exp(-worked_s / MEMORY_S)
        self.value = kept * self.value + (1.0 - kept) * beside
