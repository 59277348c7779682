"""Topic usage: the frequency at which tokens of each topic choose each expert, Stratum's per-topic usage table (arXiv
2510.05245, 3.1), for the routers of any model.

    usage = read_usage(folder / "experts_by_topic.json")      # a token model's, on held-out text
    chances = usage.chances(Routers(layers=48, experts=128, top_k=8))

The table is that of the token model whose text is served, read from the file beside its weights: routes and usage then
belong together, and a model that users train themselves brings its own.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from device_model.experts.route_map import Routers
from device_model.specs.spec import SpecError
from device_model.step import FloatArray, IntArray

UNKNOWN = -1
"""The index of a topic that the table does not have: its tokens choose as those of all topics do on average."""
# A share that the file's five decimals show as 0 is below this.
UNSEEN = 5e-6
LARGEST_GAP = 0.01  # of a layer's sum from 1


@dataclass(frozen=True, slots=True, eq=False)
class TopicUsage:
    """`shares` [topics, layers, experts] of a layer's choices, summing to 1 in a layer, and the `topics` by name."""

    topics: tuple[str, ...]
    shares: FloatArray

    def index(self, topic: str) -> int:
        """Where `topic` stands in the table; UNKNOWN if it does not."""
        return self.topics.index(topic) if topic in self.topics else UNKNOWN

    def mix(self, topics: IntArray) -> tuple[float, ...]:
        """Return the weight of each topic among sequences of `topics` [n], summing to 1; UNKNOWN is of all alike."""
        known = np.bincount(topics[topics != UNKNOWN], minlength=len(self.topics))
        weights = known + (len(topics) - known.sum()) / len(self.topics)
        return tuple((weights / weights.sum()).tolist())

    def chances(self, target: Routers) -> FloatArray:
        """Return the chances [topics, layers, experts] that a token chooses experts of `target`; a layer's sum to
        top-k.

        What `route_map` makes of routes, in expectation: neighbouring layers share a layer of the table, an expert has
        the share of its forebears (those merged into it, or its part of the run that stands for one), and a token
        chooses as many as `target` has it choose. None is chosen more than once, so that what a share of more than
        1 / top-k leaves over is the others'. Mapped routes choose so where one number of experts is a multiple of the
        other and the table's model chose enough; where it did not (for DeepSeek-V2-Lite's six a token, of a model with
        four), `route_map` fills up with neighbours, by which they are more even than this.
        """
        layers = np.arange(target.layers) * self.shares.shape[1] // target.layers
        return _scaled(_renumbered(self.shares, target.experts)[:, layers], target.top_k)


def read_usage(path: Path) -> TopicUsage:
    """Return the table of a file {topic: [layers][experts]} of shares. Raise SpecError, which says what is wrong."""
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SpecError(f"{path} can't be read; allowed is JSON of shares by topic: {error}.") from None
    if not isinstance(table, dict) or not table:
        raise SpecError(f"{path} has no topics; allowed is an object of shares [layers][experts] by topic.")
    tables = [_shares(topic, layers, path) for topic, layers in table.items()]
    for topic, shares in zip(table, tables, strict=True):
        if shares.shape != tables[0].shape:
            raise SpecError(f"{path}: {topic} has another shape; allowed is that of all topics, {tables[0].shape}.")
    together = np.array(tables)
    return TopicUsage(tuple(table), together / together.sum(axis=-1, keepdims=True))


def _shares(topic: str, layers: Any, path: Path) -> FloatArray:
    try:
        shares = np.array(layers, dtype=np.float64)
    except (TypeError, ValueError):
        shares = np.zeros(0)
    if shares.ndim != 2 or not shares.size or not (shares >= 0).all():
        raise SpecError(f"{path}: {topic} has no table; allowed are numbers of 0 or more, [layers][experts].")
    if not (abs(shares.sum(axis=1) - 1) < LARGEST_GAP).all():
        raise SpecError(f"{path}: a layer of {topic} does not sum to 1; allowed are shares of a layer's choices.")
    return shares


def _renumbered(shares: FloatArray, experts: int) -> FloatArray:
    """Return the shares [..., source] of as many `experts`, by rule 2 of `route_map`."""
    source = shares.shape[-1]
    if experts > source:
        forebear = np.arange(experts) * source // experts
        spread: FloatArray = (shares / np.bincount(forebear, minlength=source))[..., forebear]
        return spread
    merged: FloatArray = np.add.reduceat(shares, -(-np.arange(experts) * source // experts), axis=-1)
    return merged


def _scaled(shares: FloatArray, top_k: int) -> FloatArray:
    """Chances of at most 1, in proportion to `shares` [..., experts] as far as that allows, which sum to `top_k`."""
    if top_k == shares.shape[-1]:
        return np.ones_like(shares)
    seen = np.maximum(shares, UNSEEN)
    full = np.zeros(shares.shape, dtype=bool)
    while True:
        rest = np.where(full, 0.0, seen)
        left = top_k - full.sum(axis=-1, keepdims=True)
        chances: FloatArray = np.where(full, 1.0, rest * (left / rest.sum(axis=-1, keepdims=True)))
        if (chances <= 1.0).all():
            return chances
        full = chances >= 1.0
