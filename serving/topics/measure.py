"""Accuracy and latency of a classifier on labelled prompts."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from serving.topics.classifier import Classifier, Topic
from serving.topics.labelled_prompts import LabelledPrompt
from serving.topics.names import NAMES

WARM_UP = 8  # prompts, after which caches and clocks are as in use


@dataclass(frozen=True, slots=True)
class Measurement:
    """The topic found for each prompt, and the seconds that it took alone, on one core."""

    prompts: tuple[LabelledPrompt, ...]
    topics: tuple[Topic, ...]
    latencies_s: tuple[float, ...]

    @property
    def accuracy(self) -> float:
        """Share of prompts that got their own topic."""
        right = sum(asked.topic == found.name for asked, found in zip(self.prompts, self.topics, strict=True))
        return right / len(self.prompts)

    @property
    def confusion(self) -> dict[str, dict[str, int]]:
        """Number of prompts by their own topic (the row) and the topic found (the column)."""
        counts = {row: dict.fromkeys(NAMES, 0) for row in NAMES}
        for asked, found in zip(self.prompts, self.topics, strict=True):
            counts[asked.topic][found.name] += 1
        return counts

    def latency_ms(self, percentile: float) -> float:
        """Return a percentile of the latencies, in milliseconds."""
        return float(np.percentile(self.latencies_s, percentile)) * 1e3


def measure(classifier: Classifier, prompts: Sequence[LabelledPrompt]) -> Measurement:
    """Classify the prompts one at a time on one core, after `WARM_UP` to warm up."""
    classifier.use_one_core()
    for asked in (list(prompts) * WARM_UP)[:WARM_UP]:
        classifier.classify([asked.prompt])
    topics, latencies_s = [], []
    for asked in prompts:
        started_s = time.perf_counter()
        topics += classifier.classify([asked.prompt])
        latencies_s.append(time.perf_counter() - started_s)
    return Measurement(tuple(prompts), tuple(topics), tuple(latencies_s))
