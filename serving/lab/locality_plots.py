"""The picture of `foreserve locality --out`: ELMoE-3D's Fig. 16 a to d, from real routing."""

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from serving.presentation.picture import panels, write_png

Result = dict[str, Any]


def draw(result: Result, path: Path) -> None:
    """Write it as PNG."""
    write_png({path.stem: lambda: drawn(result)}, path.parent)


def drawn(result: Result) -> Figure:
    """Four panels: misses over the batch, experts touched together, misses by model, misses by topic."""
    figure, grid = panels((12, 9), 2, 2)
    _by_batch(grid[0, 0], result)
    _touched(grid[0, 1], result)
    _by_model(grid[1, 0], result)
    _by_topic(grid[1, 1], result)
    return figure


def _by_batch(axes: Axes, result: Result) -> None:
    shares = sorted({row["share"] for row in result["hits"]})
    for colour, share in enumerate(shares[::2]):
        rows = [row for row in result["hits"] if row["share"] == share]
        batches = [row["batch"] for row in rows]
        axes.plot(batches, [1 - row["trace"] for row in rows], "o-", color=f"C{colour}", label=f"{share:.1%} held")
        axes.plot(batches, [1 - row["law"] for row in rows], ":", color=f"C{colour}")
    axes.set(xscale="log", xlabel="batch", ylabel="miss rate", title="(a) Misses over the batch; dotted: fitted law")
    axes.set_xticks(batches, [str(batch) for batch in batches])
    axes.legend(fontsize=8)


def _touched(axes: Axes, result: Result) -> None:
    rows = result["touched"]
    tokens = [row["tokens"] for row in rows]
    for colour, (key, label) in enumerate(
        (("between_requests", "of as many requests (AR)"), ("within_a_request", "of one request (SD)"))
    ):
        law = "law_between" if key == "between_requests" else "law_within"
        axes.plot(tokens, [row[key] for row in rows], "o-", color=f"C{colour}", label=label)
        axes.plot(tokens, [row[law] for row in rows], ":", color=f"C{colour}")
    axes.set(xscale="log", xlabel="tokens", ylabel="share of experts", title="(b) Experts that tokens touch together")
    axes.set_xticks(tokens, [str(number) for number in tokens])
    axes.legend(fontsize=8)


def _by_model(axes: Axes, result: Result) -> None:
    models = list(dict.fromkeys(row["model"] for row in result["models"]))
    for colour, name in enumerate(models):
        rows = [row for row in result["models"] if row["model"] == name and row["batch"] == 1]
        shares = [row["share"] for row in rows]
        axes.plot(shares, [1 - row["trace"] for row in rows], "o-", color=f"C{colour}", label=name)
        axes.plot(shares, [1 - row["law"] for row in rows], ":", color=f"C{colour}")
    axes.set(xlabel="share of experts held", ylabel="miss rate", title="(c) As another model; dotted: its Table 3 law")
    axes.legend(fontsize=8)


def _by_topic(axes: Axes, result: Result) -> None:
    topics = list(dict.fromkeys(row["topic"] for row in result["topics"]))
    for topic in topics:
        rows = [row for row in result["topics"] if row["topic"] == topic]
        axes.plot([row["share"] for row in rows], [1 - row["trace"] for row in rows], "o-", label=topic)
    axes.set(xlabel="share of experts held", ylabel="miss rate", title="(d) By topic, in batches of 4")
    axes.legend(fontsize=8)
