"""Token costs: what a token costs later in either mode, by a device model, for batches told apart by buckets."""

from functools import lru_cache

from serving.policies.mode_prices import ModePrices, PricesAt
from serving.policies.step_option import KV_TOKENS, PLAIN, StepModel
from serving.policies.turnover import CostQuestion, TokenCost, token_cost

# Answers that are kept, here and by each who asks.
KEPT = 4096


class TokenCosts:
    """What tokens cost on a device that may draft to any of `depths`: each question is worked out once.

    An answer takes some milliseconds, and all devices of a kind ask the same: so where there are several, they share
    one of these.
    """

    def __init__(self, model: StepModel, full_bytes_per_s: float, depths: tuple[int, ...]) -> None:
        """`model` prices steps; `full_bytes_per_s` is the whole bandwidth of its slow tier."""
        self._prices = {
            by_energy: [ModePrices(model, full_bytes_per_s, each, by_energy) for each in ((PLAIN,), depths)]
            for by_energy in (False, True)
        }
        self.of = lru_cache(KEPT)(self._asked)

    def _asked(self, question: CostQuestion) -> list[TokenCost]:
        """Return what a token costs in plain decoding, and in drafting."""
        decoding = question.decoding
        context = (question.kv + 0.5) * KV_TOKENS / decoding
        return [
            token_cost(PricesAt(mode, context, question.share, question.mix), decoding, question.load, drafting)
            for drafting, mode in zip((False, True), self._prices[question.by_energy], strict=True)
        ]
