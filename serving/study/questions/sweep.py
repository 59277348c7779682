"""Sweep: run every combination; answer with the best of those that meet their targets."""

from typing import Self

from serving.study.measures.targets import Targets
from serving.study.questions import EveryPoint, asked_of, closeness, pooled, row_of, with_all_seeds
from serving.study.study import Finding, Study
from serving.study.summary import Row
from serving.toml_table import TomlTable

BEST = (("most goodput", "goodput_per_s", True), ("least energy", "j_per_token", False))
SHOWN = ("attainment", "goodput_per_s", "ttft_p99_s", "tpot_p99_s", "tokens_per_s", "j_per_token")


class Sweep(EveryPoint):
    """Run each combination once with each seed."""

    @classmethod
    def of(cls, table: TomlTable, targets: Targets) -> Self:
        """Return the question; its table has no keys."""
        return cls()

    def answers(self, study: Study, answers: list[Row], findings: list[Finding]) -> list[Row]:
        """Among combinations that meet the targets, and were made with each seed, return the one with the most goodput
        and the one with the least energy."""
        kept = [
            (settings, {name: pooled(group, name) for name in SHOWN} | asked_of(study, group))
            for settings, group in with_all_seeds(findings)
            if closeness(group, study.needs) >= 1
        ]
        rows = []
        for label, name, most in BEST if kept else ():
            settings, figures = (max if most else min)(kept, key=lambda each: each[1][name])
            rows.append(row_of({"best by": label} | settings, **figures))
        return rows
