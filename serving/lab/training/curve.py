"""The picture of a training run: its loss, in training and on held-out text, over the tokens that it has read."""

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from serving.presentation.picture import panels, write_png


def draw(points: list[dict[str, Any]], path: Path) -> None:
    """Write it as PNG."""
    write_png({path.stem: lambda: curve(points)}, path.parent)


def curve(points: list[dict[str, Any]]) -> Figure:
    """Loss over tokens."""
    figure, [[axes]] = panels((8, 4.2))
    tokens = [point["tokens"] / 1e6 for point in points]
    axes.plot(tokens, [point["loss"] for point in points], label="training", linewidth=1)
    measured = [(point["tokens"] / 1e6, point["held_out"]) for point in points if point["held_out"] is not None]
    axes.plot(*zip(*measured, strict=True), label="held-out", linewidth=1.4)
    axes.set(xlabel="tokens, in millions", ylabel="nats a token", ylim=(0, None))
    axes.legend()
    return figure
