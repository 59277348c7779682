"""Sweep: what comes of each combination. The answers are the best of those that keep their targets."""

from typing import Self

from serving.study.questions import EveryPoint, by_settings, pooled, row_of
from serving.study.study import Finding, Study
from serving.study.summary import Row
from serving.study.targets import Targets
from serving.workload.table import Table

BEST = (("most goodput", "goodput_per_s", True), ("least energy", "j_per_token", False))
SHOWN = ("attainment", "goodput_per_s", "ttft_p99_s", "tpot_p99_s", "tokens_per_s", "j_per_token")


class Sweep(EveryPoint):
    """Each combination once, with each seed."""

    @classmethod
    def of(cls, table: Table, targets: Targets) -> Self:
        """There is nothing to say."""
        return cls()

    def answers(self, study: Study, answers: list[Row], findings: list[Finding]) -> list[Row]:
        """Of the combinations that keep the targets, the one with the most goodput, and with the least energy."""
        kept = [
            (settings, {name: pooled(group, name) for name in SHOWN})
            for settings, group in by_settings(findings)
            if pooled(group, "attainment") >= study.targets.share
        ]
        rows = []
        for label, name, most in BEST if kept else ():
            settings, figures = (max if most else min)(kept, key=lambda each: each[1][name])
            rows.append(row_of({"best by": label} | settings, **figures))
        return rows
