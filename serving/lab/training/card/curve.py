"""The picture of a training run: its loss, in training and on held-out text, over the tokens that it has read."""

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from serving.presentation.picture import panels, write_png

Points = list[dict[str, Any]]


def draw(runs: list[Points], path: Path) -> None:
    """Write it as PNG: runs one after the other, each from the weights of the one before."""
    write_png({path.stem: lambda: curve(runs)}, path.parent)


def curve(runs: list[Points]) -> Figure:
    """Loss over tokens."""
    points = one_after_the_other(runs)
    figure, [[axes]] = panels((8, 4.2))
    tokens = [point["tokens"] / 1e6 for point in points]
    axes.plot(tokens, [point["loss"] for point in points], label="training", linewidth=1)
    measured = [(point["tokens"] / 1e6, point["held_out"]) for point in points if point["held_out"] is not None]
    axes.plot(*zip(*measured, strict=True), label="held-out", linewidth=1.4)
    axes.set(xlabel="tokens, in millions", ylabel="nats a token", ylim=(0, None))
    axes.legend()
    return figure


def one_after_the_other(runs: list[Points]) -> Points:
    """Return the points of all runs, each run's tokens counted from the last of those before."""
    points: Points = []
    for run in runs:
        before = points[-1]["tokens"] if points else 0
        points += [point | {"tokens": before + point["tokens"]} for point in run]
    return points
