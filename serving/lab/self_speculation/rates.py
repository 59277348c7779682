"""The measured rates that the emulator can use in the place of the paper's: `specs.measured_rates` reads them."""

from collections.abc import Iterator

from device_model.specs.measured_rates import COLUMNS
from serving.lab.self_speculation.measure import MeasuredPoint
from serving.lab.self_speculation.record import AcceptanceRecord
from serving.presentation.csv_rows import csv_text

BITS = 4  # of ELMoE-3D's drafts


def rates_csv(found: AcceptanceRecord) -> str:
    """Rates by pool, share and batch, as CSV under two lines that say of what."""
    about = found.about
    head = [
        "# Acceptance measured on a token model by `foreserve speculate`: greedy, INT8 G32 target, 4-bit drafts.",
        f"# {about['prompts']} held-out prompts, {about['new_tokens']} tokens each, seed {about['seed']}; "
        f"model {about['model'][:16]}.",
    ]
    points = {(pool, p.case.share, batch): p for pool, batch, p in _points(found)}
    cells = [
        (pool, f"{share:g}", batch, p.case.depth, f"{p.alpha:.4f}")
        for (pool, share, batch), p in sorted(points.items())
    ]
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in cells]
    return "".join(f"{line}\n" for line in head) + csv_text(rows, COLUMNS)


def _points(found: AcceptanceRecord) -> Iterator[tuple[str, int, MeasuredPoint]]:
    """Points, with their pool and the batch that shares it. All experts are no pool, whatever the batch."""
    shared = found.figures["fig17b"]
    yield from ((p.case.kind, p.case.batch, p) for p in [*shared, *found.figures["fig17a"]])
    if whole := found.point(family="elastic", bits=BITS):
        for batch in sorted({p.case.batch for p in shared}):
            yield from ((kind, batch, whole) for kind in ("hot", "random"))
    if quantised := found.point(family="elastic", treatment="dedicated", bits=BITS):
        yield "quantised", 1, quantised
