"""Do synthetic traces have the popularity and the locality that they were asked for?"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.device_model.synthetic_routes import synthetic_routes, zipf_popularity
from tests.examples import examples


@examples(30)
@given(st.integers(0, 2**32), st.integers(1, 12), st.floats(0, 2), st.floats(0, 1), st.data())
def test_synthetic_tokens_choose_distinct_experts_and_a_seed_repeats_them(seed, experts, exponent, repeat, data):
    top_k = data.draw(st.integers(1, experts))

    def made():
        draw = np.random.default_rng(seed)
        return synthetic_routes(zipf_popularity(2, experts, exponent, draw), 6, top_k, repeat, draw)

    routes = made()
    assert routes.shape == (6, 2, top_k)
    assert ((routes >= 0) & (routes < experts)).all()
    assert (np.diff(routes, axis=-1) > 0).all()
    assert (routes == made()).all()


def test_synthetic_popularity_is_zipf_and_locality_is_as_asked():
    draw = np.random.default_rng(2)
    popularity = zipf_popularity(2, 32, 1.0, draw)
    assert np.sort(popularity, axis=1)[:, ::-1][0, :3] == pytest.approx(popularity.max() / np.array([1, 2, 3]))
    for repeat in (0.0, 0.6):
        routes = synthetic_routes(popularity, 8000, 1, repeat, draw)[..., 0]
        for layer in range(2):
            share = np.bincount(routes[:, layer], minlength=32) / 8000
            assert share == pytest.approx(popularity[layer], abs=0.03)
            same = (routes[1:, layer] == routes[:-1, layer]).mean()
            assert same == pytest.approx(repeat + (1 - repeat) * (popularity[layer] ** 2).sum(), abs=0.03)
    forever = synthetic_routes(popularity, 5, 4, 1.0, draw)
    assert (forever == forever[0]).all()
