"""Outlook: how large a device's batch would get if nobody else came, and how long answers turn out to be."""

from serving.scheduler.config import Limits, SchedulerRules, most_prompt_tokens
from serving.scheduler.kv_cache import KvCache
from serving.scheduler.sequence import Sequence
from serving.types import Outlook

REQUESTS = 16
"""Requests after whose end two thirds of what was known is forgotten."""


class AnswerShare:
    """Of requests that ended lately, the `share` of the tokens that they might have had and did: 1 where each is
    generated to its limit, and little where clients name none."""

    def __init__(self) -> None:
        self.share = 1.0

    def note_end(self, sequence: Sequence) -> None:
        """Take note of a sequence that has ended, unless it was given up before its first token, as forecasts do."""
        if not sequence.released:
            return
        most = sequence.released + sequence.remaining
        self.share += (sequence.released / most - self.share) / REQUESTS


def outlook(limits: Limits, rules: SchedulerRules, waiting: int, running: int, kv: KvCache, answered: float) -> Outlook:
    """Return the outlook with `waiting` and `running` sequences.

    Those could run for whom there are places and, if they become as long as the ones that run, room in the KV cache.
    """
    alike = kv.free * running // kv.used if kv.used else waiting
    admissible = max(0, min(waiting, limits.max_num_seqs - running, alike))
    return Outlook(admissible, most_prompt_tokens(limits, rules), answered)
