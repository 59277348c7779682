"""Compare: each variant against a baseline, under the same requests, at each place on the axes."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isnan, nan
from typing import Any, Self

from serving.study.measures.targets import Targets
from serving.study.point import VARIANT
from serving.study.questions import EveryPoint, by_settings, pooled, row_of
from serving.study.study import Finding, Study
from serving.study.summary import Row
from serving.toml_table import TomlTable

BASE = " /base"
"""The end of the name of a figure as a multiple of the baseline's."""
FIGURES = (
    *("ttft_mean_s", "ttft_p99_s", "tpot_mean_s", "tpot_p99_s", "attainment", "goodput_per_s", "tokens_per_s"),
    *("j_per_token", "hit_rate"),
)


@dataclass(frozen=True, slots=True)
class Compare(EveryPoint):
    """Compare variants with the variant `baseline` (default: the first)."""

    baseline: str

    @classmethod
    def of(cls, table: TomlTable, targets: Targets) -> Self:
        """Parse the question's table. Raise `StudyError`."""
        names: dict[str, Any] = table.values.get("variants", {})
        if not isinstance(names, dict) or len(names) < 2:
            raise table.error("variants", "has fewer than two tables: `compare` compares variants.")
        below = table.table("compare") or table.below("compare", {})
        found = cls(below.word("baseline", tuple(names), next(iter(names))))
        below.end()
        return found

    def answers(self, study: Study, answers: list[Row], findings: list[Finding]) -> list[Row]:
        """Return each variant's figures at each place as multiples of the baseline's; with several seeds, also the
        least and the greatest multiple."""
        groups = {_place(settings): group for settings, group in by_settings(findings)}
        rows = []
        for settings, group in by_settings(findings):
            base = groups.get(_place(settings | {VARIANT: self.baseline}))
            pairs = _same_seeds(group, base or [])
            if pairs:
                rows.append(row_of(settings, **_against(pairs, study.asked_figures)))
        return rows


def _place(settings: dict[str, Any]) -> str:
    return repr(sorted(settings.items()))


def _same_seeds(group: list[Finding], base: list[Finding]) -> list[tuple[Finding, Finding]]:
    """Return the runs of both that had the same requests; of others some may have failed."""
    of_base = {finding.point.seed: finding for finding in base}
    return [(finding, of_base[finding.point.seed]) for finding in group if finding.point.seed in of_base]


def figures_of(rows: Sequence[Row]) -> list[str]:
    """Return the figures by which any of these answers sets a variant beside the baseline."""
    return list(dict.fromkeys(name.removesuffix(BASE) for row in rows for name in row if name.endswith(BASE)))


def _against(pairs: list[tuple[Finding, Finding]], asked: Sequence[str]) -> Row:
    """Return the usual figures and those that are `asked`, as far as all runs have them: what a token costs, one that
    serves nobody does not have."""
    row: Row = {}
    group, base = [one for one, _ in pairs], [other for _, other in pairs]
    asked = [name for name in asked if all(name in finding.row for finding in (*group, *base))]
    for name in dict.fromkeys((*FIGURES, *asked)):
        row[name] = pooled(group, name)
        row[f"{name}{BASE}"] = _ratio(group, base, name)
        ratios = [ratio for one, other in pairs if not isnan(ratio := _ratio([one], [other], name))]
        if len(pairs) > 1 and ratios:
            row[f"{name}{BASE} least"], row[f"{name}{BASE} most"] = min(ratios), max(ratios)
    return row


def is_comparable(row: Row) -> bool:
    """Tell whether the baseline and the variant of an answer both served somebody: else there is nothing to set beside
    each other."""
    return not isnan(row["tokens_per_s /base"])


def _ratio(group: list[Finding], base: list[Finding], name: str) -> float:
    """Return how many times the baseline's a figure is: no number where either serves nobody, whose latencies and
    joules are 0 as there are none, or where both have nothing of it."""
    value, of_base = pooled(group, name), pooled(base, name)
    if not (pooled(group, "tokens_per_s") and pooled(base, "tokens_per_s")):
        return nan
    return value / of_base if of_base else inf if value else nan
