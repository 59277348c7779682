"""The measured rates that the emulator can use in the place of the paper's: `specs.measured` reads them."""

from collections.abc import Iterator

from device_model.specs.measured import COLUMNS
from serving.lab.self_speculation.measure import MeasuredPoint
from serving.lab.self_speculation.record import AcceptanceRecord

BITS = 4  # of ELMoE-3D's drafts


def rates_csv(found: AcceptanceRecord) -> str:
    """Rates by pool, share and batch, as CSV under two lines that say of what."""
    about = found.about
    lines = [
        "# Acceptance measured on a token model by `foreserve speculate`: greedy, INT8 G32 target, 4-bit drafts.",
        f"# {about['prompts']} held-out prompts, {about['new_tokens']} tokens each, seed {about['seed']}; "
        f"model {about['model'][:16]}.",
        ",".join(COLUMNS),
    ]
    rows = {(pool, p.case.share, batch): p for pool, batch, p in _points(found)}
    lines += [
        f"{pool},{share:g},{batch},{p.case.depth},{p.alpha:.4f}" for (pool, share, batch), p in sorted(rows.items())
    ]
    return "\n".join(lines) + "\n"


def _points(found: AcceptanceRecord) -> Iterator[tuple[str, int, MeasuredPoint]]:
    """Points, with their pool and the batch that shares it. All experts are no pool, whatever the batch."""
    shared = found.figures["fig17b"]
    yield from ((p.case.kind, p.case.batch, p) for p in [*shared, *found.figures["fig17a"]])
    if whole := found.point(family="elastic", bits=BITS):
        for batch in sorted({p.case.batch for p in shared}):
            yield from ((kind, batch, whole) for kind in ("hot", "random"))
    if quantised := found.point(family="elastic", treatment="dedicated", bits=BITS):
        yield "quantised", 1, quantised
