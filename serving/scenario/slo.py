"""SLO classes: what a request of a class is promised, and how soon it is served beside others."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from serving.key_values import TermError, parse_terms, split_name
from serving.types import NEVER

# Half a second is felt as prompt, and 20 tokens/s are some four times what people read; 2 s and 5 tokens/s, the pace of
# reading, are what MLPerf Inference asks of Llama 2 70B in its server scenario; a batch job waits for its last token.
# A request without a class has priority 0 too.
DEFAULT_CLASSES = (
    "interactive: ttft_ms=500, tpot_ms=50, priority=-1",
    "standard: ttft_ms=2000, tpot_ms=200, priority=0",
    "batch: priority=1",
)
NO_CLASS, OWN_TARGETS = "none", "custom"
"""What requests without a class are counted under, and those that only name targets of their own."""
TERMS = {"ttft_ms": float, "tpot_ms": float, "priority": int}
# As vLLM's own field.
LEAST_PRIORITY, MOST_PRIORITY = -(2**63), 2**63 - 1


class SloClass(NamedTuple):
    """Time to first token and per output token, in emulated seconds; of `priority` a lower one is served sooner."""

    name: str
    ttft_s: float = NEVER
    tpot_s: float = NEVER
    priority: int = 0


def parse_classes(texts: Sequence[str], what: str) -> dict[str, SloClass]:
    """Return the classes by name: none of an empty list, which the command line writes as "none". Raise `TermError`,
    whose message begins with `what`."""
    classes: dict[str, SloClass] = {}
    for text in () if tuple(texts) == (NO_CLASS,) else texts:
        name, terms = split_name(text, what)
        if name in (NO_CLASS, OWN_TARGETS):
            sentence = "under which requests without a class are counted: name it otherwise."
            raise TermError(f"{what} has {name!r}, {sentence}")
        if name in classes:
            raise TermError(f"{what} has {name!r} twice: once is enough.")
        classes[name] = _parse(name, parse_terms(terms, TERMS, what), what)
    return classes


def _parse(name: str, terms: dict[str, Any], what: str) -> SloClass:
    for key in ("ttft_ms", "tpot_ms"):
        if key in terms and terms[key] <= 0:
            raise TermError(f"{what} has `{key}` = {terms[key]:g} for {name!r}: it must be above 0 (or left out).")
    priority = terms.get("priority", 0)
    if not LEAST_PRIORITY <= priority <= MOST_PRIORITY:
        raise TermError(f"{what} has `priority` = {priority} for {name!r}: it must fit in 64 bits.")
    return SloClass(name, terms.get("ttft_ms", NEVER) / 1000, terms.get("tpot_ms", NEVER) / 1000, priority)


def counted_under(slo: str, ttft_s: float, tpot_s: float) -> str:
    """Return the class under which a request is counted that names this one ("" for none) and has these targets."""
    return slo or (OWN_TARGETS if min(ttft_s, tpot_s) < NEVER else NO_CLASS)
