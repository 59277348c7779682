"""The report of `foreserve parity`: tables and sentences for people, JSON and CSV for everything else."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from serving.parity.figures import CLIENT, DEVICE, METRICS, PLANNED, SIDES, STATISTICS, ComparedRow, quantiles
from serving.parity.run import Parity
from serving.parity.verdict import FEW, LIMITS
from serving.presentation.csv_rows import write_csv as write_rows
from serving.presentation.table import Table
from serving.types import StepRecord

HEADS = ("client", "device", "as arrived", "as planned")
WORST = 5


def show(found: Parity, console: Console) -> None:
    """Print the report for people."""
    if found.rows:
        console.print(_figures(found))
        console.print(_worst(found.rows))
    for sentence in sentences(found):
        console.print(Text(sentence), soft_wrap=True)
    console.print(Text(_verdict(found), "bold"), soft_wrap=True)
    for clause in found.failures + found.doubts:
        console.print(Text(f"- {clause}."), soft_wrap=True)
    for sentence in found.caveats:
        console.print(Text(sentence), soft_wrap=True)


def _verdict(found: Parity) -> str:
    if found.hosts_own:
        return "The device agrees with virtual time; the client does not, and what lies between is this host's:"
    if found.failures:
        return "Live and virtual time differ:"
    if found.doubts:
        return f"No telling whether live and virtual time agree: {len(found.rows)} requests are too few."
    limits = " and ".join(f"{limit:.0%} of the {name}" for name, limit in LIMITS.items())
    return f"Live and virtual time agree: TTFT and TPOT within {limits}, and the schedule."


def sentences(found: Parity) -> Iterator[str]:
    """Yield the sentences beside the figures: on the schedule, the requests, and this host."""
    yield from _schedule(found)
    yield from _requests(found)
    fidelity = found.report.fidelity
    if fidelity is None:
        return
    late_s, share = fidelity.lateness_mean_s or 0.0, fidelity.lateness_share or 0.0
    yield f"This host: tokens left the server {late_s * 1e3:.3g} ms late on average, {share:.1%} of the modelled TTFT."
    if fidelity.underruns:
        yield (
            f"{fidelity.underruns} of {fidelity.released_tokens} tokens were not there when the device released them: "
            f"give vLLM more time (a --speed below {fidelity.speed:g}), or less to do (--token-model foreserve-tiny)."
        )


def to_json(found: Parity) -> dict[str, Any]:
    """Return the whole comparison as plain values."""
    return {
        "agree": found.agree,
        "failures": found.failures,
        "doubts": found.doubts,
        "caveats": found.caveats,
        "speed": found.scenario.speed,
        "planned": found.planned,
        "compared": len(found.rows),
        "figures": {
            metric: {side: asdict(quantiles(found.rows, side, metric)) for side in SIDES} for metric in METRICS
        },
        "checks": [
            check._asdict()
            | {"spread": check.spread._asdict(), "share": check.share, "within": check.within, "chance": check.chance}
            for check in found.checks
        ],
        "schedule": {
            "as_arrived": _agreement(found, "arrived"),
            "slips": found.slips,
            "with_slips": _agreement(found, "heard"),
            "steps": {who: {"made": len(records), **_modes(records)} for who, records in found.steps.items()},
        },
        "load": found.report.to_json(),
        "requests": [_flat(row) for row in found.rows],
    }


def write_csv(found: Parity, path: Path) -> None:
    """Write a line for each request. Raise OSError."""
    write_rows([_flat(row) for row in found.rows], path, ["id"])


def _figures(found: Parity) -> Table:
    lines = []
    for metric in METRICS:
        by_side = [quantiles(found.rows, side, metric) for side in SIDES]
        for statistic in STATISTICS:
            values = dict(zip(SIDES, (getattr(each, statistic) for each in by_side), strict=True))
            if None in values.values():
                continue
            shares = [values[side] / values[PLANNED] - 1 if values[PLANNED] else 0.0 for side in (DEVICE, CLIENT)]
            late_s, chance_s = found.spreads[metric, statistic]
            cells = [f"{values[side] * 1e3:,.2f}" for side in SIDES] + [f"{share:+.2%}" for share in shares]
            cells += [f"{late_s * 1e3:,.2f}", f"±{chance_s / late_s:.2%}" if late_s else "-"]
            lines.append([f"{metric.removesuffix('_s').upper()} {statistic}", *cells])
    return Table(["ms", *HEADS, "device", "client", "if late", "by chance"], lines)


def _worst(rows: Sequence[ComparedRow]) -> Table:
    """Return a table of the requests whose TTFT differs most between the live device and the plan."""
    title = f"Of {len(rows)} requests those that differ most, in ms (all: --csv, --json)"
    lines = []
    for row in sorted(rows, key=_apart_s, reverse=True)[:WORST]:
        device, planned = row.times[DEVICE], row.times[PLANNED]
        seconds = (row.late_s, device.ttft_s, planned.ttft_s, device.tpot_s, planned.tpot_s)
        cells = ["-" if value is None else f"{value * 1e3:,.2f}" for value in seconds]
        lines.append([row.id, *cells, "slipped a step" if row.slipped else ""])
    heads = ("request", "arrived later", "TTFT device", "as planned", "TPOT device", "as planned", "")
    return Table(heads, lines, title, words=(0, len(heads) - 1))


def _apart_s(row: ComparedRow) -> float:
    return abs(row.times[DEVICE].ttft_s - row.times[PLANNED].ttft_s)


def _schedule(found: Parity) -> Iterator[str]:
    arrived, heard = found.arrived, found.heard
    modes = _modes(found.steps["live"])
    said = f"Schedule: {arrived.steps:,} steps live ({modes['ar']:,} AR, {modes['sd']:,} SD)"
    if arrived.first is None:
        yield f"{said}; as arrived, all are the same in mode, batch and new tokens."
        return
    yield f"{said}; as arrived, the first {arrived.agree:,} are the same in mode, batch and new tokens."
    if found.slips:
        same = f"all {heard.steps:,}" if heard.identical else f"the first {heard.agree:,}"
        yield f"News of {found.slips} arrivals came a step too late live; with these a step later, {same} are the same."
    if found.shared:
        yield (
            "Devices that share LPDDR are told of their shares a little later live than in virtual time, so that steps "
            "differ in length: the schedules need not be the same."
        )


def _requests(found: Parity) -> Iterator[str]:
    rows = found.rows
    if not rows:
        return
    late_s = [row.late_s for row in rows]
    mean_ms, most_ms = sum(late_s) / len(rows) * 1e3, max(late_s) * 1e3
    yield f"Beside the first, arrivals were {mean_ms:.3g} ms later than planned on average, {most_ms:.3g} ms at most."
    for what in ("prompt", "output"):
        more = [getattr(row, f"{what}_tokens") - getattr(row, f"{what}_tokens_asked") for row in rows]
        if any(more):
            yield (
                f"{sum(map(bool, more))} of {len(rows)} {what}s had not the tokens that the workload asks for: "
                f"{sum(more) / len(rows):+.2g} on average."
            )
    elsewhere = sum(row.device != row.device_planned for row in rows)
    if elsewhere:
        yield f"{elsewhere} of {len(rows)} requests were on another device than as planned."
    others = sum(row.topic != row.topic_planned for row in rows)
    if others:
        yield (
            f"{others} of {len(rows)} requests were of another topic than in the workload, by the server's classifier: "
            "policies that go by topic did something else."
        )
    if len(rows) < FEW:
        yield f"Of {len(rows)} requests the p99 is hardly more than the largest value: below {FEW} it decides nothing."


def _modes(records: Sequence[StepRecord]) -> dict[str, int]:
    return {mode: sum(record.mode == mode for record in records) for mode in ("ar", "sd")}


def _agreement(found: Parity, which: str) -> dict[str, Any]:
    agreement = found.arrived if which == "arrived" else found.heard
    first = agreement.first
    return {
        "steps": agreement.steps,
        "agree": agreement.agree,
        "apart_s": agreement.apart_s,
        "first_difference": None
        if first is None
        else {
            **first._asdict(),
            "live": first.live and first.live._asdict(),
            "virtual": first.virtual and first.virtual._asdict(),
        },
    }


def _flat(row: ComparedRow) -> dict[str, Any]:
    times = {
        f"{metric.removesuffix('_s')}_{side}_s": getattr(row.times[side], metric)
        for metric in METRICS
        for side in SIDES
    }
    return {name: value for name, value in row._asdict().items() if name != "times"} | times
