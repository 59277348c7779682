"""Depth of drafts: how many tokens a draft looks ahead, as a scenario writes it."""

import re
from enum import Enum

from serving.key_values import TermError


class DepthChoice(Enum):
    """A depth that is no number: as the draft was calibrated, or whichever the device model finds best."""

    CALIBRATED = ""
    BY_COST = "auto"


DraftDepth = int | DepthChoice


def parse_depth(text: str) -> DraftDepth:
    """Return the depth that `text` stands for. Raise `TermError`."""
    if text in [choice.value for choice in DepthChoice]:
        return DepthChoice(text)
    if not re.fullmatch("[1-9][0-9]{0,8}", text):
        raise TermError(f"`depth` is {text!r}: it must be a whole number of at least 1, or auto.")
    return int(text)
