"""The measurement in words: beside what the papers print, and as statements that are true or false."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from serving.lab.self_speculation.measure import MeasuredPoint
from serving.lab.self_speculation.record import AcceptanceRecord
from serving.lab.self_speculation.report import published
from serving.lab.self_speculation.report.claims import Claim, claims
from serving.lab.self_speculation.report.plots import PICTURES
from serving.lab.self_speculation.report.shapes import at, gain
from serving.presentation.table import Table


class TextRow(NamedTuple):
    """A figure of a paper beside ours."""

    source: str
    what: str
    published: str
    measured: str


def rows(found: AcceptanceRecord) -> list[TextRow]:
    """All that a paper's text or tables print, and whose like was measured."""
    return [row for make in (_elastic, _hotness, _slices, _cassandra, _exits) for row in make(found)]


def markdown(found: AcceptanceRecord) -> str:
    """Return the report as Markdown."""
    about = found.about
    parts = [
        "# Acceptance of self-drafts, measured",
        f"{about['prompts']} held-out prompts (seed {about['seed']}), at most {about['new_tokens']} new tokens each, "
        f"drafts of {about['depth']} tokens unless said otherwise, greedy unless said otherwise. "
        f"Model {about['model'][:16]} (SHA-256 of its weights), {about['dtype']}, {about['threads']} thread(s). "
        f"± is a standard error over sequences.{' ' + about['date'] + '.' if 'date' in about else ''}",
        "The papers measured models of 4B to 30B on public benchmarks. This one is a few million parameters in size "
        "and knows the corpus it was trained on: shapes are comparable, levels only loosely.",
        "## Beside what the papers print",
        _table(("Source", "Figure", "Published", "Measured"), rows(found)),
        "## What the papers say of shapes",
        'Judged by the measured means. "Within errors" marks a verdict in which some difference is below two standard '
        "errors, which are paired by sequence.",
        _table(("Verdict", "Source", "Statement", "Figures"), map(_verdict, claims(found))),
        "## Table 3's Elastic-SD by pool",
        "The pool's share of all experts is what `device_model` has room for at 1k context; measured is the 4-bit hot "
        "pool of that share at that batch, linear between the measured shares. GPT-OSS holds whole experts in MXFP4.",
        _table(("HB (GB)", "Target", "Batch", "Pool share", "Published alpha", "Measured alpha"), _cells(found)),
        "## Pictures",
        *[f"![{name}]({name}.png)" for name in PICTURES],
        "## All points",
        *_figures(found),
        "## What this is not",
        *LIMITS,
    ]
    return "\n\n".join(parts) + "\n"


LIMITS = (
    "- Drafts are chains of width 1; the papers' ELMoE-3D drafts trees.\n"
    "- ELMoE-3D's activations are INT8; here only weights are quantised, the head among them.\n"
    "- The first layers are a plain early exit, without the adapters that M2R2 trains: the baseline that it improves.\n"
    "- Cassandra-2's group size and magnitude bits are ours (32 and 8), and its target differs slightly from BF16's.\n"
    "- Sequences end before others, so that a pool is shared by fewer than the nominal batch towards the end (`live`): "
    "what a batch costs is understated.\n"
    "- A step in which an answer ends among accepted tokens is left out.\n"
    "- Arithmetic and KV cache are in float32; `held` and `read` count weights as stored, of one draft pass by pool.",
)


def _elastic(found: AcceptanceRecord) -> Iterator[TextRow]:
    for gb in (4.0, 8.0):
        for batch in (1, 4, 8, 16):
            cells = [c for c in published.elastic_cells() if c.hb_gb == gb and c.batch == batch]
            ours = [value for c in cells if (value := _measured(found, c)) is not None]
            if cells and ours:
                print_ = ", ".join(f"{c.alpha:.2f}" for c in cells)
                what = f"Elastic-SD alpha, {gb:g} GB, batch {batch}: {', '.join(_short(c.target) for c in cells)}"
                yield TextRow("ELMoE-3D Table 3", what, print_, ", ".join(f"{value:.2f}" for value in ours))


def _hotness(found: AcceptanceRecord) -> Iterator[TextRow]:
    hot = {p.case.share: p for p in found.curve("fig17a", kind="hot")}
    shown = [
        f"{gain(hot[p.case.share].alpha, p.alpha):+.0%} at {p.case.share:g}"
        for p in found.curve("fig17a", kind="random")
        if p.case.share in hot
    ]
    theirs = published.HOTNESS_GAIN - 1
    yield TextRow(
        "ELMoE-3D 7.3 B", "Accepted length, hot over random pool, by its share", f"~{theirs:+.0%}", ", ".join(shown)
    )


def _slices(found: AcceptanceRecord) -> Iterator[TextRow]:
    low, high = published.QUANT
    copy = found.point(family="elastic", treatment="dedicated", bits=4)
    if copy:
        yield TextRow(
            "ELMoE-3D 7.1", "Quant-SD alpha: a dedicated 4-bit copy", f"{low:.2f} to {high:.2f}", _alpha(copy)
        )


def _cassandra(found: AcceptanceRecord) -> Iterator[TextRow]:
    for family, (depth, low, high) in published.CASSANDRA.items():
        point = found.point(family=family, depth=depth, pruned=0.4, dropped=4, kv_dropped=4)
        if point:
            what = f"{family} alpha, 40 % pruned, 4 bits cut, depth {depth}"
            mean = published.CASSANDRA_MEAN[family]
            yield TextRow("Cassandra Table IV", what, f"{low:.2f} to {high:.2f}, mean {mean:.2f}", _alpha(point))
    for name, value in published.EXPONENT_BITS.items():
        if name in found.about.get("exponents", {}):
            ours = f"{found.about['exponents'][name]:.2f}"
            yield TextRow("Cassandra IV-B", f"Exponent of a weight, {name} (bits)", f"{value:g}", ours)


def _exits(found: AcceptanceRecord) -> Iterator[TextRow]:
    for point in found.figures.get("first-layers", []):
        what = f"Alpha of an early exit after layer {point.case.layers}, untrained"
        yield TextRow("M2R2", what, 'no figure in its text; "suboptimal" (A.2)', _alpha(point))


def _measured(found: AcceptanceRecord, cell: published.PublishedElastic) -> float | None:
    points = [*found.curve("fig17b", kind="hot", batch=cell.batch)]
    if not points:
        return None
    whole = found.point(family="elastic")
    return at([*points, whole] if whole else points, cell.share, _share)


def _share(point: MeasuredPoint) -> float:
    return point.case.share


def _cells(found: AcceptanceRecord) -> Iterator[Sequence[str]]:
    for cell in published.elastic_cells():
        ours = _measured(found, cell)
        if ours is not None:
            share, alpha = f"{cell.share:.2f}", f"{cell.alpha:.2f}"
            yield f"{cell.hb_gb:g}", cell.target, str(cell.batch), share, alpha, f"{ours:.2f}"


def _verdict(claim: Claim) -> Sequence[str]:
    verdict = "true" if claim.holds else "false"
    return verdict if claim.clear else f"{verdict}, within errors", claim.source, claim.text, claim.figures


def _figures(found: AcceptanceRecord) -> Iterator[str]:
    for name, points in found.figures.items():
        if points:
            names = _varying(points)
            head = (*names, "alpha", "accepted", "held MB", "read MB", "steps", "live")
            yield f"### {name}\n\n" + _table(head, [_line(point, names) for point in points])


def _varying(points: list[MeasuredPoint]) -> list[str]:
    """Return the names of what differs between cases within a figure."""
    records = [point.case.record() for point in points]
    names = list(dict.fromkeys(name for record in records for name in record))
    return [name for name in names if len({record.get(name) for record in records}) > 1] or ["family"]


def _line(point: MeasuredPoint, names: list[str]) -> Sequence[str]:
    record = point.case.record()
    own = [f"{record[name]:g}" if isinstance(record[name], float) else str(record[name]) for name in names]
    megabytes = [f"{size / 1e6:.3f}" for size in (point.held_bytes, point.read_bytes)]
    accepted = f"{point.accepted:.2f} ± {point.accepted_se:.2f}"
    return (*own, _alpha(point), accepted, *megabytes, str(point.steps), f"{point.live:.1f}")


def _alpha(point: MeasuredPoint) -> str:
    return f"{point.alpha:.3f} ± {point.alpha_se:.3f}"


def _short(target: str) -> str:
    return target.split("-")[0]


def _table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    return Table(head, list(body), words=range(len(head))).markdown().rstrip()
