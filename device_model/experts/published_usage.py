"""Published usage: a table of usage by topic for a model of which only the share of hot choices is published.

    usage = published_usage(load_model("olmoe-1b-7b"), ("law", "programming"))

Stratum prints that share, h, and not the tables that it comes from (arXiv 2510.05245, 6.3.3). Here a token of a topic
chooses each of the topic's k hot experts of a layer with h, and any other alike: `hot_hits` by topic, so that experts
placed for one topic are found as often as is published. Which ones are hot is drawn for each topic by itself, since
nothing is published of that: two topics share as many as chance has it. The table is the same each time.
"""

import numpy as np

from device_model.experts.topic_usage import TopicUsage
from device_model.specs.spec import DeviceError, Model

SEED = 0


def published_usage(model: Model, topics: tuple[str, ...]) -> TopicUsage:
    """Return the table of `model` for `topics`. Raise DeviceError for a model of which no share is published."""
    if not model.hot_hit_rate:
        raise DeviceError(
            "Nobody has published which share of the model's choices falls on a topic's hot experts (`hot_hit_rate`); "
            "allowed is a table that was measured."
        )
    shape = (len(topics), model.expert_layers, model.experts)
    hot = np.random.default_rng(SEED).random(shape).argsort(axis=-1) < model.top_k
    of_hot = model.hot_hit_rate / model.top_k
    of_cold = (1 - model.hot_hit_rate) / max(1, model.experts - model.top_k)
    return TopicUsage(topics, np.where(hot, of_hot, of_cold))
