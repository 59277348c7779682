"""`foreserve explain`: prints which operator of a step runs where, why, and what it costs."""

from collections.abc import Iterator, Sequence
from itertools import accumulate, zip_longest

from rich.console import Console
from rich.padding import Padding

from device_model.roofline import Stage
from serving.presentation.table import Table
from serving.reports.explanation import Explanation, Operator

NARROW = 150
"""A terminal with fewer characters has the reasons below the table."""
LARGE = 100
"""A figure from which on there is no need of what stands behind its point."""


def show(found: Explanation, console: Console) -> None:
    """Print a step."""
    batch = f"{found.batch} sequence{'s' * (found.batch > 1)} with {found.context} tokens of context"
    console.print(f"{found.model} on {found.system} ({found.hardware}): a step of {batch}")
    narrow = console.width < NARROW
    for stage, title in zip(found.stages, _titles(found.stages), strict=True):
        console.print(_table(found, stage, title, narrow))
        for line in _reasons(found.rows_of(stage)) if narrow else ():
            console.print(Padding(line, (0, 0, 0, 2)))
    _print_cost(console, found)
    for sentence in found.caveats:
        console.print(sentence)
    _print_accepted(console, found)
    per_token = found.latency_s / found.tokens * 1e3, found.energy_j / found.tokens * 1e3
    console.print(f"Per token: {per_token[0]:.3f} ms, {per_token[1]:.3f} mJ")


def _titles(stages: Sequence[Stage]) -> Iterator[str]:
    """Yield a title for each stage; of stages of the same name, such as a draft's passes, each says which it is."""
    said: set[str] = set()
    for stage, later in zip_longest(stages, stages[1:]):
        more = " more" if stage.name in said else ""
        if stage.repeats > 1:
            yield f"{stage.name}, {stage.repeats}{more} passes; one of them:"
        else:
            is_split = bool(more) or (later is not None and later.name == stage.name)
            yield f"{stage.name}, {'one more' if more else 'first'} pass" if is_split else stage.name
        said.add(stage.name)


def _table(found: Explanation, stage: Stage, title: str, narrow: bool) -> Table:
    fast, slow = (f"{tier.upper()} MB" for tier in found.device.tiers)
    heads = ["operator", "unit", "ms", "bound by", "GMAC", fast, "written", slow, "why there"]
    rows = [_row(each, narrow) for each in found.rows_of(stage)]
    if narrow:
        # A tier's name above its unit, as figures are seldom wider than the one of them.
        heads, rows = [head.replace(" MB", "\nMB") for head in heads[:-1]], [row[:-1] for row in rows]
    ends = accumulate(len(group) for group in stage.groups)
    gaps = [end - 1 for end in ends]
    return Table(heads, rows, title, words=(0, 1, 3, 8), gaps=gaps, is_whole=narrow)


def _row(each: Operator, narrow: bool) -> tuple[str, ...]:
    mega = [_figure(value / 1e6, 1, narrow) for value in (each.fast_bytes, each.written_bytes, each.slow_bytes)]
    head = (each.operator, each.unit, f"{each.seconds * 1e3:.3f}", each.bound_by)
    # What waits moves nothing.
    moved = (_figure(each.macs / 1e9, 2, narrow), *mega) if each.unit else ("",) * 4
    return (*head, *moved, each.why)


def _figure(value: float, digits: int, narrow: bool) -> str:
    """Return a figure with so many digits behind the point; where room is narrow, with none if it is large."""
    return f"{value:,.{0 if narrow and value >= LARGE else digits}f}"


def _reasons(operators: list[Operator]) -> Iterator[str]:
    """Yield each reason once, with the operators that it holds for."""
    by_reason: dict[str, list[str]] = {}
    for each in operators:
        by_reason.setdefault(each.why, []).append(each.operator)
    for why, names in by_reason.items():
        if why:
            yield f"{', '.join(dict.fromkeys(names))}: {why}"


def _print_cost(console: Console, found: Explanation) -> None:
    cost, device = found.cost, found.device
    draft_ms, target_ms, update_ms = (seconds * 1e3 for seconds in cost.seconds)
    console.print(
        f"Step: {cost.latency_s * 1e3:.3f} ms (drafting {draft_ms:.3f}, target {target_ms:.3f}, "
        f"pool update not hidden {update_ms:.3f}), {cost.energy_j * 1e3:.2f} mJ"
    )
    joules = {device.tiers.of(name.removesuffix("_j")): value for name, value in cost.energy._asdict().items()}
    shares = ", ".join(f"{name} {value * 1e3:.2f}" for name, value in joules.items())
    powers = ", ".join(f"{name} {watts:.1f} W" for name, watts in cost.power_by_stage_w.items())
    console.print(f"Energy (mJ): {shares}; average power {cost.power_w:.1f} W ({powers})")
    if cost.expert_lookups:
        console.print(
            f"Experts: {cost.expert_lookups:,.0f} read, "
            f"{100 * cost.expert_hits / cost.expert_lookups:.1f} % {device.hits_are}"
        )


def _print_accepted(console: Console, found: Explanation) -> None:
    shape = found.plan.draft
    if shape is None or found.rate is None:
        return
    console.print(
        f"Accepted: {found.accepted:.2f} of {shape.depth} drafts (alpha {found.accepted / shape.depth:.2f}; a tree "
        f"{shape.width} wide, of which {shape.verify_tokens} are verified), and one token more"
    )
    if found.rate.caveat:
        console.print(f"Note: {found.rate.caveat}")
