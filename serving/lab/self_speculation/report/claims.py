"""What the papers say of shapes, each held against the measurement: true or false, with the figures that decide."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

from device_model.speculation import accepted_at
from serving.lab.self_speculation.measure import MeasuredPoint
from serving.lab.self_speculation.record import AcceptanceRecord
from serving.lab.self_speculation.report import published
from serving.lab.self_speculation.report.shapes import ShapeDifference, bend, budgets, difference, gain

COMPARABLE = 0.05  # in alpha: what "performs comparably" is taken to mean
LAW = 0.05  # relative: what the device model's law of depth is allowed to be off


class Claim(NamedTuple):
    """`holds` is judged by the measured means; `clear` says that no difference it rests on is within its error."""

    source: str
    text: str
    holds: bool
    clear: bool
    figures: str


def claims(found: AcceptanceRecord) -> list[Claim]:
    """Those that the measured points allow to judge."""
    return [claim for make in MAKERS for claim in make(found)]


def hot_over_random(found: AcceptanceRecord) -> Iterator[Claim]:
    """Which pool is better, at batch 1 (Fig. 17a)."""
    pairs = _pairs(found.curve("fig17a", kind="hot"), found.curve("fig17a", kind="random"), lambda p: p.case.share)
    if not pairs:
        return
    gains = [(hot.case.share, gain(hot.alpha, random.alpha), difference(hot, random)) for hot, random in pairs]
    shown = ", ".join(f"{share:g}: {more:+.0%} ({diff})" for share, more, diff in gains)
    holds, clear = _all_positive([diff for *_, diff in gains])
    yield Claim("ELMoE-3D 7.3 B", "A hot pool has more accepted than a random one, at every share", holds, clear, shown)
    middle = [more for share, more, _ in gains if 0.25 <= share <= 0.5]
    mean = sum(middle) / len(middle)
    text = f"The gain is some {published.HOTNESS_GAIN - 1:.0%}: taken as 10 to 40 %, mean of the shares 1/4 to 1/2"
    yield Claim("ELMoE-3D 7.3 B", text, 0.1 <= mean <= 0.4, True, f"{mean:+.0%}")


def batches(found: AcceptanceRecord) -> Iterator[Claim]:
    """Yield claims on what sharing a pool costs (Fig. 17b)."""
    for share in sorted({p.case.share for p in found.curve("fig17b", kind="random")}):
        hot, random = (found.curve("fig17b", kind=kind, share=share) for kind in ("hot", "random"))
        if not (hot and random and hot[0].case.batch == random[0].case.batch):
            continue
        fall, drift = difference(hot[0], hot[-1]), difference(random[0], random[-1])
        shown = ", ".join(f"batch {p.case.batch}: {p.alpha:.3f}" for p in hot)
        text = f"A hot pool of {share:g} loses with the batch that shares it, and little: less than 15 % at 16"
        holds = 0 < fall.value < 0.15 * hot[0].alpha
        yield Claim("ELMoE-3D 7.3 B", text, holds, fall.clear, f"{shown}; lost {fall}")
        text = f"A random pool of {share:g} is no worse for a larger batch"
        yield Claim("ELMoE-3D 7.3 B", text, not (drift.value > 0 and drift.clear), True, f"lost {drift}")
        lead = difference(hot[-1], random[-1])
        text = f"At batch {hot[-1].case.batch} the hot pool of {share:g} still leads the random one"
        yield Claim("ELMoE-3D 7.3 B", text, lead.value > 0, lead.clear, str(lead))


def treatments(found: AcceptanceRecord) -> Iterator[Claim]:
    """Yield claims on what the MSB slice should stand for (Fig. 17c)."""
    source = "ELMoE-3D 7.3 C"
    by_name = {
        name: {p.case.bits: p for p in found.curve("fig17c", treatment=name)}
        for name in ("augmented", "rounded", "truncated", "dedicated")
    }
    widths = sorted(set.intersection(*(set(points) for points in by_name.values())))
    for width in [width for width in widths if width < 5]:
        augmented, rounded, truncated, dedicated = (by_name[name][width] for name in by_name)
        steps = [difference(augmented, rounded), difference(rounded, truncated)]
        shown = f"{augmented.alpha:.3f}, {rounded.alpha:.3f}, {truncated.alpha:.3f}"
        text = f"At {width} bits augmentation is above rounding, and rounding above truncation"
        yield Claim(source, text, *_all_positive(steps), shown)
        gap = difference(augmented, dedicated)
        text = f"At {width} bits augmentation is comparable to dedicated quantisation: at most {COMPARABLE:g} below"
        yield Claim(source, text, gap.value > -COMPARABLE, gap.clear or gap.error < COMPARABLE, str(gap))
    if 4 in widths:
        truncated, augmented = by_name["truncated"][4], by_name["augmented"][4]
        shown = f"{truncated.alpha:.3f} against {augmented.alpha:.3f}"
        text = "Truncation fails to function as a draft at 4 bits: less than half of augmentation's alpha"
        yield Claim(source, text, truncated.alpha < augmented.alpha / 2, True, shown)


def both_axes(found: AcceptanceRecord) -> Iterator[Claim]:
    """Tell whether scaling experts and bits together pays (Fig. 5b), and where bits end."""
    points = found.figures.get("fig5b", [])
    joint = [p for p in points if p.case.share < 1 and p.case.bits < 8]
    text = "Experts and bits scaled together have more accepted than either alone, at equal bytes held"
    yield from _together("ELMoE-3D 3.3, Fig. 5b", text, joint, _bits_alone(points), _experts_alone(points))
    four, three, five = (found.point(family="elastic", bits=bits) for bits in (4, 3, 5))
    if four and three and five:
        more = bend(five, four, three)
        text = "4 bits are the practical lower bound: 4 to 3 costs more than 5 to 4"
        shown = f"4 to 3: {three.alpha - four.alpha:+.3f}, 5 to 4: {four.alpha - five.alpha:+.3f}; more by {more}"
        yield Claim("ELMoE-3D 2.2", text, more.value > 0, more.clear, shown)


def cassandra(found: AcceptanceRecord) -> Iterator[Claim]:
    """Its two ways to save together (Fig. 7a), its acceptance rates and its code."""
    points = found.figures.get("fig7a", [])
    joint = [p for p in points if p.case.pruned and p.case.dropped]
    pruned = [p for p in points if not p.case.dropped]
    cut = [p for p in points if not p.case.pruned]
    text = "Pruning and truncation together have more accepted than either alone, at equal bytes held"
    yield from _together("Cassandra IV-C, Fig. 7a", text, joint, pruned, cut)
    for family, (depth, low, high) in published.CASSANDRA.items():
        point = found.point(family=family, depth=depth, pruned=0.4, dropped=4, kv_dropped=4)
        if point:
            text = f"{family} at 40 % and 4 bits has an alpha of {low:g} to {high:g}, depth {depth}"
            shown = f"{point.alpha:.3f} ± {point.alpha_se:.3f}"
            yield Claim("Cassandra Table IV", text, low <= round(point.alpha, 2) <= high, True, shown)
    unary = found.about.get("exponents", {}).get("unary")
    if unary:
        text = f"Unary-coded exponents take some {published.EXPONENT_BITS['unary']:g} bits: within 0.3"
        holds = abs(unary - published.EXPONENT_BITS["unary"]) <= 0.3
        yield Claim("Cassandra IV-B, Fig. 6b", text, holds, True, f"{unary:.2f} bits")


def early_exit(found: AcceptanceRecord) -> Iterator[Claim]:
    """Yield claims on the first layers as a draft, without M2R2's adapters."""
    points = found.figures.get("first-layers", [])
    four = found.point(family="elastic", bits=4)
    if not points or not four:
        return
    rises = [difference(b, a) for a, b in pairwise(points)]
    shown = ", ".join(f"after layer {p.case.layers}: {p.alpha:.3f}" for p in points)
    if rises:
        yield Claim("M2R2 A.2", "More layers before the exit have more accepted", *_all_positive(rises), shown)
    gap = difference(four, max(points, key=lambda p: p.alpha))
    text = (
        "Without trained adapters an exit is weakly aligned: below the 4-bit slices of all experts, whatever the layer"
    )
    yield Claim("M2R2 A.2; ELMoE-3D 2.2", text, gap.value > 0, gap.clear, str(gap))


def depths(found: AcceptanceRecord) -> Iterator[Claim]:
    """How acceptance goes with depth, and whether the law that the emulator uses for it holds."""
    points = found.figures.get("depth", [])
    base = next((p for p in points if p.case.depth == 5), None)
    if not base or len(points) < 2:
        return
    falls = [difference(a, b) for a, b in pairwise(points)]
    shown = ", ".join(f"{p.case.depth}: {p.alpha:.3f} ({p.accepted:.2f} tokens)" for p in points)
    holds, clear = _all_positive(falls)
    longer = all(b.accepted > a.accepted for a, b in pairwise(points))
    yield Claim(
        "speculation", "Deeper drafts have more tokens and a smaller share accepted", holds and longer, clear, shown
    )
    laws = [(p, accepted_at(base.alpha, 5, p.case.depth)) for p in points if p is not base]
    shown = ", ".join(
        f"{p.case.depth}: {p.accepted:.2f}, law {law:.2f} ({gain(law, p.accepted):+.1%})" for p, law in laws
    )
    holds = all(abs(gain(law, p.accepted)) < LAW for p, law in laws)
    text = f"The device model's chain (speculation.py), fitted at depth 5, gives other depths within {LAW:.0%}"
    yield Claim("device_model", text, holds, True, shown)


def _together(source: str, text: str, joint: list[MeasuredPoint], *singles: list[MeasuredPoint]) -> Iterator[Claim]:
    """One claim over the budgets that both single axes can meet, and one over those that only one can."""
    found = budgets(joint, *singles)
    for reached, where in ((2, "where either alone reaches so low"), (1, "where only one alone reaches so low")):
        leads = [(budget.held_bytes, budget.lead) for budget in found if budget.reached == reached]
        if leads:
            won = sum(lead.value > 0 for _, lead in leads)
            shown = "; ".join(f"{size / 1e6:.2f} MB {lead}" for size, lead in leads)
            judged = _all_positive([lead for _, lead in leads])
            yield Claim(source, f"{text}, {where}", *judged, f"at {won} of {len(leads)} budgets: {shown}")


def _bits_alone(points: list[MeasuredPoint]) -> list[MeasuredPoint]:
    return [p for p in points if p.case.share == 1]


def _experts_alone(points: list[MeasuredPoint]) -> list[MeasuredPoint]:
    return [p for p in points if p.case.bits == 8]


def _all_positive(differences: list[ShapeDifference]) -> tuple[bool, bool]:
    return all(diff.value > 0 for diff in differences), all(diff.clear for diff in differences)


def _pairs(
    first: list[MeasuredPoint], second: list[MeasuredPoint], key: Callable[[MeasuredPoint], float]
) -> list[tuple[MeasuredPoint, MeasuredPoint]]:
    others = {key(point): point for point in second}
    return [(point, others[key(point)]) for point in first if key(point) in others]


MAKERS = (hot_over_random, batches, treatments, both_axes, cassandra, early_exit, depths)
