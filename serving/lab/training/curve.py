"""The picture of a training run: its loss, in training and on held-out text, over the tokens that it has read."""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt


def draw(points: list[dict[str, Any]], path: Path) -> None:
    """Write it as PNG."""
    figure, axes = plt.subplots(figsize=(8, 4.2), layout="constrained")
    tokens = [point["tokens"] / 1e6 for point in points]
    axes.plot(tokens, [point["loss"] for point in points], label="training", linewidth=1)
    measured = [(point["tokens"] / 1e6, point["held_out"]) for point in points if point["held_out"] is not None]
    axes.plot(*zip(*measured, strict=True), label="held-out", linewidth=1.4)
    axes.set(xlabel="tokens, in millions", ylabel="nats a token", ylim=(0, None))
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=130)
    plt.close(figure)
