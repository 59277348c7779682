"""Routing traces made from two figures, popularity and locality: a reference for what the laws expect.

    popularity = zipf_popularity(layers=48, experts=128, exponent=0.8, draw=draw)      # the model's, shared by requests
    requests = [synthetic_routes(popularity, 500, 8, repeat=0.4, draw=draw) for _ in range(16)]
    step = np.stack([routes[t] for routes in requests])                               # token t of each: one decode pass

Real routers also tie layers to each other and experts to topics; these traces do not.
"""

import numpy as np

from device_model.experts.residency import Routes
from device_model.step import FloatArray


def zipf_popularity(layers: int, experts: int, exponent: float, draw: np.random.Generator) -> FloatArray:
    """Probability of each expert [layers, experts], summing to 1 in a layer: 1 / rank^exponent, ranks drawn per layer.

    An exponent of 0 makes all experts alike.
    """
    weights = np.arange(1, experts + 1, dtype=np.float64) ** -exponent
    return draw.permuted(np.tile(weights / weights.sum(), (layers, 1)), axis=1)


def synthetic_routes(
    popularity: FloatArray, tokens: int, top_k: int, repeat: float, draw: np.random.Generator
) -> Routes:
    """Expert ids [tokens, layers, top_k] of one request, ascending in each layer of a token.

    Each expert of the previous token is kept with the probability `repeat`, in each layer on its own; the places left
    are drawn by `popularity` [layers, experts], one after the other, without those taken. A dropped expert may be drawn
    again, so that neighbours share more than `repeat` of their experts: with repeat = 0 they share what popularity
    makes them share.
    """
    chances = np.log(popularity)
    routes = np.empty((tokens, len(popularity), top_k), dtype=np.int64)
    for token in range(tokens):
        # The largest of log p + Gumbel noise are draws without putting back.
        keys = chances + draw.gumbel(size=chances.shape)
        if token:
            kept = draw.random(routes[token - 1].shape) < repeat
            previous = np.take_along_axis(keys, routes[token - 1], axis=1)
            np.put_along_axis(keys, routes[token - 1], np.where(kept, np.inf, previous), axis=1)
        routes[token] = np.argpartition(keys, -top_k, axis=1)[:, -top_k:]
        routes[token].sort(axis=-1)
    return routes
