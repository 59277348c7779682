"""The questions of a study. A question makes inquiries, each of which asks for points until it has its answer.

An inquiry is a generator: it yields lists of points, is sent their findings in the same order, and returns its answer,
a row. So what is asked next may depend on what was found, and inquiries run concurrently.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from serving.study.axes import Settings, combinations
from serving.study.measures.percentiles import METRICS
from serving.study.measures.targets import Targets
from serving.study.point import SEED, VARIANT, Point
from serving.study.point_factory import points_of
from serving.study.study import Finding, Inquiry, Study
from serving.study.summary import Row
from serving.toml_table import TomlTable

OF_TOKENS = ("j_per_token", "step_j_per_token", "batch_mean", "sd_share", "hit_rate", "accepted_share", "cached_share")
"""Figures of what tokens take, and of the steps that give them."""


class EveryPoint:
    """Base of questions that run each combination once with each seed."""

    __slots__ = ()

    @property
    def figures(self) -> tuple[str, ...]:
        """Return no figure in particular."""
        return ()

    def needs(self, targets: Targets) -> dict[str, float]:
        """Return the columns of shares that decide whether targets are kept: those of the targets."""
        return targets.needs

    def check(self, study: Study, table: TomlTable) -> None:
        """Accept any study."""

    def inquiries(self, study: Study) -> list[Inquiry]:
        """Return one inquiry for each point."""
        return [_ask(point) for settings in settings_of(study) for point in points_of(study, settings)]

    def expected(self, study: Study) -> int:
        """Return the number of points."""
        return len(self.inquiries(study))


def _ask(point: Point) -> Inquiry:
    yield [point]
    return None


def settings_of(study: Study) -> Iterator[Settings]:
    """Yield the settings of each variant at each place on the axes."""
    variants: list[Settings] = [{VARIANT: name} for name in study.variants] or [{}]
    for variant in variants:
        for place in combinations(study.axes):
            yield variant | place


def by_settings(findings: list[Finding]) -> list[tuple[Settings, list[Finding]]]:
    """Group findings by settings, seeds together; leave out failed points."""
    groups: dict[str, tuple[Settings, list[Finding]]] = {}
    for finding in findings:
        if not finding.error:
            settings = _beside_seed(finding)
            groups.setdefault(repr(settings), (settings, []))[1].append(finding)
    return list(groups.values())


def with_all_seeds(findings: list[Finding]) -> list[tuple[Settings, list[Finding]]]:
    """Group findings as `by_settings` does, without places at which a seed failed, or was not run, as in a study that
    was interrupted, or of a capacity that one seed alone was tried at: the others tell nothing of it."""
    failed = {repr(_beside_seed(finding)) for finding in findings if finding.error}
    groups = [each for each in by_settings(findings) if repr(each[0]) not in failed]
    seeds = max((len(group) for _, group in groups), default=0)
    return [each for each in groups if len(each[1]) == seeds]


def _beside_seed(finding: Finding) -> Settings:
    return {name: value for name, value in finding.point.names.items() if name != SEED}


def pooled(findings: list[Finding], name: str) -> float:
    """Return the mean of figure `name` over seeds, weighted by the number of judged requests: of what only those have
    who are served, over the seeds with which anybody is, if there is one."""
    findings = [finding for finding in findings if has_figure(finding.row, name)] or findings
    weights = [finding.row["judged"] or 1 for finding in findings]
    total: float = sum(finding.row[name] * weight for finding, weight in zip(findings, weights, strict=True))
    return total / sum(weights)


def has_figure(row: Row, name: str) -> bool:
    """Tell whether a run has a figure: where nobody is served, latencies and what is counted by token or by step say 0,
    as there are none."""
    if name.partition("_")[0] in METRICS and name.endswith("_s"):
        return bool(row.get("refused_share", 0.0) < 1)
    return name not in OF_TOKENS or bool(row.get("tokens_per_s", 1.0) > 0)


def closeness(findings: list[Finding], needs: Mapping[str, float]) -> float:
    """Return how close runs come to what is needed of their shares: 1 or more if all of it is there."""
    return min((pooled(findings, name) / share for name, share in needs.items()), default=1.0)


def first_error(findings: list[Finding]) -> str:
    """Return the first finding's error; "" if none failed."""
    return next((finding.error for finding in findings if finding.error), "")


def asked_of(study: Study, findings: list[Finding]) -> Row:
    """Return the figures that a study asks for beside the usual ones, as far as all runs have them."""
    names = [name for name in study.asked_figures if all(name in finding.row for finding in findings)]
    return {name: pooled(findings, name) for name in names}


def row_of(settings: Settings, **figures: Any) -> Row:
    """Return an answer's row: the settings, then `figures`."""
    return dict(settings) | figures
