"""`foreserve classify`: the topics of labelled prompts, how many are right, and how long each took."""

from pathlib import Path
from typing import Any

from rich.console import Console

from serving.presentation.table import Table
from serving.topics.classifier import Classifier
from serving.topics.labelled_prompts import read_labelled
from serving.topics.measure import Measurement, measure
from serving.topics.names import NAMES

SHOWN = 20  # of the prompts that got another topic than theirs


def classify(path: Path) -> Measurement:
    """Classify a file's prompts."""
    return measure(Classifier.load(), read_labelled(path))


def to_json(measured: Measurement) -> dict[str, Any]:
    """`accuracy`, `confusion` (rows are true), `latency_ms` and `predictions`, one for each prompt in its order."""
    return {
        "accuracy": round(measured.accuracy, 4),
        "confusion": measured.confusion,
        "latency_ms": {f"p{p}": round(measured.latency_ms(p), 3) for p in (50, 99)},
        "predictions": [
            {
                "line": asked.line,
                "topic": asked.topic,
                "predicted": found.name,
                "confidence": round(found.confidence, 4),
                "prompt": asked.prompt,
            }
            for asked, found in zip(measured.prompts, measured.topics, strict=True)
        ],
    }


def show(measured: Measurement, console: Console) -> None:
    """Print the confusion matrix, and the first prompts that were taken for something else."""
    rows = []
    for row, counts in measured.confusion.items():
        total = sum(counts.values())
        rows.append([row, *map(str, counts.values()), f"{100 * counts[row] / total:.1f} %" if total else "-"])
    console.print(Table(["true \\ predicted", *NAMES, "right"], rows))
    pairs = list(zip(measured.prompts, measured.topics, strict=True))
    wrong = [(asked, found) for asked, found in pairs if asked.topic != found.name]
    if wrong:
        heads = ["line", "topic", "predicted", "confidence", "prompt"]
        first = [
            [str(asked.line), asked.topic, found.name, f"{found.confidence:.2f}", asked.prompt[:80]]
            for asked, found in wrong[:SHOWN]
        ]
        console.print(Table(heads, first, f"{len(wrong)} taken for another", words=(1, 2, 4)))
    console.print(
        f"{len(pairs)} prompts, {100 * measured.accuracy:.1f} % right; one at a time on one core: "
        f"{measured.latency_ms(50):.1f} ms at the median, {measured.latency_ms(99):.1f} ms at the 99th percentile.",
        highlight=False,
    )
