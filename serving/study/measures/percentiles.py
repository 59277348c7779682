"""Percentiles of latencies by name: `ttft_p95_s` is a figure of a run, `ttft_p95_ms` a target for it."""

import re
from typing import NamedTuple

METRICS = {"ttft": "TTFT", "tpot": "TPOT", "e2e": "E2E", "queue": "time in queue", "itl": "ITL"}
"""Latencies that have percentiles, with what people call them."""
NAME = re.compile(rf"({'|'.join(METRICS)})_p(\d\d?(?:_\d+)?)_(s|ms)")
END = re.compile(r"_p\d\d?(?:_\d+)?_(s|ms)$")
SHOWN = "ttft_p95_ms"


class Percentile(NamedTuple):
    """The time that `percent` of requests (`itl`: of tokens) stay within."""

    metric: str
    percent: float

    @property
    def figure(self) -> str:
        """Return the column that has it, in seconds."""
        return f"{self.metric}_p{self._number}_s"

    @property
    def share(self) -> float:
        """Return the share that stays within it, as its digits say: 0.999 of 99.9."""
        return round(self.percent / 100, 12)

    @property
    def title(self) -> str:
        """Return what people call it: TTFT p95."""
        return f"{METRICS[self.metric]} p{self.percent:g}"

    @property
    def _number(self) -> str:
        return f"{self.percent:g}".replace(".", "_")


class PercentileTarget(NamedTuple):
    """A percentile that is to be at most `limit_s` seconds. Requests that are refused are beyond any limit."""

    percentile: Percentile
    limit_s: float

    @property
    def key(self) -> str:
        """Return the key of a study's file that sets it, in milliseconds."""
        return self.percentile.figure.removesuffix("_s") + "_ms"

    @property
    def attainment(self) -> str:
        """Return the column that has the share of requests within the limit."""
        return self.percentile.figure.removesuffix("_s") + "_attainment"

    @property
    def share(self) -> float:
        """Return the share of requests that are to be within the limit."""
        return self.percentile.share


def percentiles_like(name: str) -> list[str]:
    """Return the figures or targets of the percentile that a name ends with, as `ttfp_p95_ms` does with the 95th; none
    if it ends otherwise."""
    end = END.search(name)
    return [f"{metric}{end[0]}" for metric in METRICS] if end else []


def percentile_of(name: str, unit: str = "s") -> Percentile | None:
    """Return the percentile that a figure (or with `unit` "ms" a target) is named after; None if it is none."""
    found = NAME.fullmatch(name)
    if found is None or found[3] != unit:
        return None
    named = Percentile(found[1], float(found[2].replace("_", ".")))
    # Written otherwise (p09, p95_0) it would be the name of no column.
    return named if named.percent > 0 and named._number == found[2] else None
