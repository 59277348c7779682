"""The tables and the picture of `foreserve policies`, and what they say in sentences, each worked out from the runs."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.console import Console

from serving.presentation.picture import write_png
from serving.presentation.table import Table
from serving.process.output_folder import make_folder, write_text
from serving.reports.policy_comparison import UNHURRIED
from serving.reports.policy_leads import gap_in_words, lead_sentences
from serving.reports.ramp_report import drawn, ramp_sentences, ramp_table, told_loads

Row = dict[str, Any]
PICTURE = "ramp"
COLUMNS = {
    "TTFT, s": ("ttft_s", "{:.2f}"),
    "p99": ("ttft_p99_s", "{:.2f}"),
    "TPOT, ms": ("tpot_s", "{:.1f}"),
    "ITL p99, ms": ("itl_p99_s", "{:.0f}"),
    "good/s": ("goodput_per_s", "{:.2f}"),
    "good, %": ("good_share", "{:.0f}"),
    "mJ/token": ("j_per_token", "{:.1f}"),
    "HB hits, %": ("hit_rate", "{:.1f}"),
    "SD steps, %": ("sd_share", "{:.0f}"),
    "changes": ("mode_changes", "{:.3g}"),
    "tokens/s": ("tokens_per_s", "{:.0f}"),
}
SCALES = {"tpot_s": 1e3, "itl_p99_s": 1e3, "j_per_token": 1e3, "good_share": 100, "hit_rate": 100, "sd_share": 100}


def write(results: dict[str, Any], command: str, folder: Path) -> list[Path]:
    """Write the report and its picture, in `folder`; return their paths. Raise UsageError if it can't be made."""
    make_folder("--out", folder)
    report = folder / "report.md"
    write_text("--out", report, markdown(results, command, PICTURE))
    return [report, *write_png({PICTURE: lambda: drawn(results["ramp"])}, folder)]


def markdown(results: dict[str, Any], command: str, picture: str = "") -> str:
    """Return the whole report as Markdown, with a link to the `picture` that lies beside it, if one does."""
    parts = _parts(results, command, picture)
    return "\n".join(part.markdown() if isinstance(part, Table) else part for part in parts) + "\n"


def show(results: dict[str, Any], command: str, console: Console) -> None:
    """Print the report in a terminal, with tables that there is room for."""
    for part in _parts(results, command):
        console.print(part, markup=False, highlight=False)
        if isinstance(part, Table):
            console.print()


def _parts(results: dict[str, Any], command: str, picture: str = "") -> Iterator[str | Table]:
    """Yield lines and tables of the report."""
    yield from ("# What each policy does", "")
    seeds = f" with each of {count} seeds, and means of these" if (count := len(results["seeds"])) > 1 else ""
    yield f"`{command}`: {results['requests']} requests of all topics and SLO classes{seeds}."
    yield from (
        "Times are emulated; TPOT and TTFT are means over requests, hits and modes those of decode steps, joules those "
        "of steps, without what an idle device draws.",
        "",
    )
    for kind, rows in groupby(results["runs"], key=lambda row: row["kind"]):
        yield from (f"## {kind.capitalize()}", "", table(list(rows)))
    yield from ("## A load that rises and falls through tau, and one that wavers about it", "", told_loads(), "")
    yield ramp_table(results["ramp"])
    if picture:
        yield from (f"![tokens per second by users, up and down]({picture}.png)", "")
    yield from ("## In sentences", "")
    for sentence in (*sentences(results), *results["caveats"]):
        yield f"- {sentence}"


def table(rows: list[Row]) -> Table:
    """Return a line for each load and policy."""
    lines = []
    for row in rows:
        cells = [form.format(row[key] * SCALES[key] if key in SCALES else row[key]) for key, form in COLUMNS.values()]
        lines.append([f"{row['load']:g} ({row['rate_per_s']:.2f}/s)", row["policy"], *cells])
    return Table(["load", "policy", *COLUMNS], lines, words=(0, 1))


def sentences(results: dict[str, Any]) -> Iterator[str]:
    """Yield the sentences that answer the usual questions."""
    yield from lead_sentences(results["runs"])
    for kind in ("batching", "batching, plain decoding", UNHURRIED):
        rows = by_policy(results, kind)
        pairs = zip(rows["topic-aware"], rows["fcfs"], strict=True)
        gains = [gap_in_words(one, other, "hit_rate") for one, other in pairs]
        yield f"{kind.capitalize()}: topic-aware over fcfs in hits in HB, by load: {', '.join(gains)}."
    rows = by_policy(results, "mode")
    trios = list(zip(rows["cost"], rows["fixed-ar"], rows["fixed-sd"], strict=True))
    fewer = max(1 - cost["tokens_per_s"] / max(ar["tokens_per_s"], sd["tokens_per_s"]) for cost, ar, sd in trios)
    longer = max(cost["tpot_s"] / min(ar["tpot_s"], sd["tpot_s"]) - 1 for cost, ar, sd in trios)
    yield (
        f"`cost` against the better of AR and SD over a whole run, at worst: {_signed(-fewer)} % tokens per second, "
        f"TPOT {_signed(longer)} %."
    )
    yield from ramp_sentences(results["ramp"])


def _signed(share: float) -> str:
    """Return a share in percent, with its sign; of nothing "+0.0"."""
    return f"{round(100 * share, 1) + 0.0:+.1f}"


def by_policy(results: dict[str, Any], kind: str) -> dict[str, list[Row]]:
    """Return the rows of a kind, by load, for each policy."""
    found: dict[str, list[Row]] = {}
    for row in results["runs"]:
        if row["kind"] == kind:
            found.setdefault(row["policy"], []).append(row)
    return found
