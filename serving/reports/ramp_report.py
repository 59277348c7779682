"""The table, the sentences and the picture of a load that rises and falls through tau, and of one that wavers."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from serving.presentation.picture import panels
from serving.presentation.table import Table
from serving.reports.mode_ramp import (
    HIGH,
    LOW,
    MOST_USERS,
    OUTPUT_TOKENS,
    PROMPT_TOKENS,
    RAMP,
    SEEDS,
    STAGE_S,
    WAVERING,
    WAVERS_S,
)

Row = dict[str, Any]
STYLES = {"fixed-ar": "k:", "fixed-sd": "C1:", "cost": "C0-", "tau": "C3--"}
COLUMNS = ("hardware", "policy", "tokens/s, up", "down", "down over up", "wavering", "changes", "in a minute")
FIXED = ("fixed-ar", "fixed-sd")


def told_loads() -> str:
    """Return what the loads are."""
    return (
        f"Users who each have a request of {PROMPT_TOKENS} and {OUTPUT_TOKENS} tokens under way: from 1 to "
        f"{MOST_USERS} and back, {STAGE_S:g} s each; and {LOW} and {HIGH} in turn, {WAVERS_S:g} s each. Means of "
        f"{len(SEEDS)} seeds. Changes of mode are those of either load, and the most in any minute of it, of the seed "
        "that has most."
    )


def ramp_table(rows: list[Row]) -> Table:
    """Return a line for each hardware and policy."""
    lines = []
    for hardware, policy in dict.fromkeys((row["hardware"], row["policy"]) for row in rows):
        up, down = ways(rows, hardware, policy)
        wavers = rates(rows, hardware, policy, WAVERING)
        changes = {row["load"]: (row["changes"], row["changes_a_minute"]) for row in rows if of(row, hardware, policy)}
        whole, most = (tuple(changes[load][i] for load in (RAMP, WAVERING)) for i in (0, 1))
        cells = [f"{np.mean(up):.1f}", f"{np.mean(down):.1f}", f"{np.mean(down) / np.mean(up):.3f}"]
        cells += [f"{np.mean(wavers):.1f}", f"{whole[0]}, {whole[1]}", f"{most[0]}, {most[1]}"]
        lines.append([hardware, policy, *cells])
    return Table(COLUMNS, lines, words=(0, 1))


def ramp_sentences(rows: list[Row]) -> Iterator[str]:
    """Yield what `tau` does on each hardware, in words."""
    for hardware in dict.fromkeys(row["hardware"] for row in rows):
        up, down = (float(np.mean(way)) for way in ways(rows, hardware, "tau"))
        most = max(row["changes_a_minute"] for row in rows if of(row, hardware, "tau"))
        yield (
            f"`tau` on {hardware}: {100 * (down / up - 1):+.1f} % tokens per second on the way down, at most {most} "
            f"changes of mode a minute; over the better fixed mode {_over_best(rows, hardware, RAMP):+.1f} % on the "
            f"ramp, {_over_best(rows, hardware, WAVERING):+.1f} % where the load wavers."
        )


def of(row: Row, hardware: str, policy: str) -> bool:
    """Tell whether a row is of a policy on some hardware."""
    return (row["hardware"], row["policy"]) == (hardware, policy)


def rates(rows: list[Row], hardware: str, policy: str, load: str) -> list[float]:
    """Return the tokens per second of a load's stages."""
    return [row["tokens_per_s"] for row in rows if of(row, hardware, policy) and row["load"] == load]


def ways(rows: list[Row], hardware: str, policy: str) -> tuple[list[float], list[float]]:
    """Return the tokens per second on the way up, and on the way down, by users from the fewest on."""
    stages = rates(rows, hardware, policy, RAMP)
    half = len(stages) // 2
    return stages[:half], stages[half:][::-1]


def _over_best(rows: list[Row], hardware: str, load: str) -> float:
    tau, *fixed = (float(np.mean(rates(rows, hardware, policy, load))) for policy in ("tau", *FIXED))
    return 100 * (tau / max(fixed) - 1)


def drawn(rows: list[Row]) -> Figure:
    """Tokens per second over those of plain decoding, as users come and as they go."""
    names = list(dict.fromkeys(row["hardware"] for row in rows))
    figure, grid = panels((10, 3.4 * len(names)), len(names), 2)
    for hardware, pair in zip(names, grid, strict=True):
        plain = ways(rows, hardware, "fixed-ar")
        for policy, style in STYLES.items():
            for panel, way, base in zip(pair, ways(rows, hardware, policy), plain, strict=True):
                users = range(1, len(way) + 1)
                panel.plot(
                    users, [rate / of_plain for rate, of_plain in zip(way, base, strict=True)], style, label=policy
                )
        for panel, title in zip(pair, ("users come", "users go"), strict=True):
            panel.set(title=f"{hardware}: {title}", xlabel="users", ylabel="tokens/s over AR")
        pair[1].invert_xaxis()
    grid[0][0].legend()
    return figure
