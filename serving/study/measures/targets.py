"""A study's targets: a time to first token, a time per output token, and the share of requests to meet them."""

from typing import NamedTuple

from serving.simulation.node import Outcome
from serving.study.measures.percentiles import PercentileTarget
from serving.toml_table import AllowedNumber
from serving.types import NEVER

ATTAINMENT = "attainment"
SHARE = AllowedNumber("a share above 0 and at most 1", lambda value: 0 < value <= 1)


class Targets(NamedTuple):
    """TTFT and TPOT (seconds) within which a request is served as promised, and the `share` of requests that are to be
    (0: none in particular, as `percentiles` say what is asked). Without either, a request is judged by what its own SLO
    class promises."""

    ttft_s: float = NEVER
    tpot_s: float = NEVER
    share: float = 0.99
    own: bool = False
    percentiles: tuple[PercentileTarget, ...] = ()

    @property
    def needs(self) -> dict[str, float]:
        """Return the columns of shares that decide whether the targets are kept, each with the least that it may be."""
        shares = {target.attainment: target.share for target in self.percentiles}
        return ({ATTAINMENT: self.share} if self.share else {}) | shares

    def of(self, outcome: Outcome) -> tuple[float, float]:
        """TTFT and TPOT that count for a request."""
        request = outcome.request
        return (request.ttft_s, request.tpot_s) if self.own else (self.ttft_s, self.tpot_s)


def _ms(ttft_ms: float, tpot_ms: float) -> Targets:
    return Targets(ttft_ms / 1000, tpot_ms / 1000)


# MLPerf Inference asks that the 99th percentiles of TTFT and TPOT lie within these, in its server and its interactive
# scenario (rules of v4.1 to v6.0, by the benchmark's model).
PRESETS = {
    "mlperf-llama2-70b-server": _ms(2000, 200),
    "mlperf-llama2-70b-interactive": _ms(450, 40),
    "mlperf-llama3.1-8b-server": _ms(2000, 100),
    "mlperf-llama3.1-8b-interactive": _ms(500, 30),
    "mlperf-mixtral-8x7b-server": _ms(2000, 200),
    "mlperf-deepseek-r1-server": _ms(2000, 80),
    "mlperf-deepseek-r1-interactive": _ms(1500, 15),
    "mlperf-gpt-oss-120b-server": _ms(3000, 80),
    "mlperf-gpt-oss-120b-interactive": _ms(2000, 20),
}
