"""Does a route of one model, taken for another's, keep its top-k and its popularity?"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.experts.residency import tally
from device_model.experts.route_map import RouteMap, Routers
from tests.device_model.synthetic_routes import synthetic_routes, zipf_popularity

BUNDLED = Routers(layers=4, experts=64, top_k=8)
TARGETS = {
    "qwen3-30b-a3b": Routers(48, 128, 8),
    "glm-4.7-flash": Routers(46, 64, 4),
    "deepseek-v2-lite": Routers(26, 64, 6),
    "gpt-oss-20b": Routers(24, 32, 4),
}


@st.composite
def routers(draw):
    experts = draw(st.integers(1, 40))
    return Routers(draw(st.integers(1, 6)), experts, draw(st.integers(1, min(experts, 10))))


def routes_of(source, tokens, seed=0, repeat=0.3):
    rng = np.random.default_rng(seed)
    popularity = zipf_popularity(source.layers, source.experts, 0.8, rng)
    return rng.permuted(synthetic_routes(popularity, tokens, source.top_k, repeat, rng), axis=-1)


@given(routers(), routers(), st.integers(0, 5), st.integers(0, 99))
def test_every_token_has_its_top_k_distinct_experts_in_every_layer(source, target, tokens, seed):
    mapped = RouteMap(source, target)(routes_of(source, tokens, seed))
    assert mapped.shape == (tokens, target.layers, target.top_k)
    counts = tally(mapped, target.layers, target.experts)  # refuses ids out of range, and repeated ones
    assert counts.sum() == mapped.size


@given(routers(), st.integers(1, 5), st.integers(0, 99))
def test_a_model_is_mapped_to_itself_as_it_is(source, tokens, seed):
    routes = routes_of(source, tokens, seed)
    assert (RouteMap(source, source)(routes) == routes).all()


@given(routers(), routers(), st.integers(1, 5), st.integers(0, 99))
def test_what_a_token_becomes_does_not_depend_on_the_others(source, target, tokens, seed):
    routes, as_target = routes_of(source, tokens, seed), RouteMap(source, target)
    alone = [as_target(routes[token : token + 1]) for token in range(tokens)]
    assert (as_target(routes) == np.concatenate(alone)).all()


@pytest.mark.parametrize("name", TARGETS)
def test_an_expert_s_share_of_the_choices_carries_over(name):
    target = TARGETS[name]
    routes = routes_of(BUNDLED, 3000)
    top = routes[..., : max(1, target.top_k * BUNDLED.experts // target.experts)]
    before = tally(top, BUNDLED.layers, BUNDLED.experts) / top[:, 0].size
    after = tally(RouteMap(BUNDLED, target)(routes), target.layers, target.experts) / (3000 * target.top_k)
    source_layer = np.arange(target.layers) * BUNDLED.layers // target.layers
    step = max(BUNDLED.experts // target.experts, 1)
    folded = before.reshape(BUNDLED.layers, -1, step).sum(axis=-1)[source_layer]
    unfolded = after.reshape(target.layers, folded.shape[1], -1).sum(axis=-1)
    # Merged experts meet one another, and then a token goes on to its next choice: shares move a little.
    assert abs(unfolded - folded).max() < (1e-12 if step == 1 else 0.02)


def test_layers_follow_in_order_and_a_run_is_used_in_full():
    as_target = RouteMap(Routers(2, 4, 1), Routers(4, 16, 2))
    routes = np.array([[[0], [3]], [[1], [2]], [[2], [1]]])
    mapped = as_target(routes)
    assert (mapped[:, 0] == mapped[:, 1]).all() and (mapped[:, 2] == mapped[:, 3]).all()
    assert (mapped[:, 0] // 4 == routes[:, 0]).all() and (mapped[:, 2] // 4 == routes[:, 1]).all()
    many = RouteMap(Routers(1, 4, 2), Routers(1, 16, 2))(routes_of(Routers(1, 4, 2), 500))
    assert set(many.ravel().tolist()) == set(range(16))


def test_too_few_choices_are_filled_up_with_neighbours():
    mapped = RouteMap(Routers(1, 8, 2), Routers(1, 8, 5))(np.array([[[6, 2]]]))
    assert mapped.tolist() == [[[6, 2, 7, 3, 0]]]


@pytest.mark.parametrize("bad", [Routers(0, 8, 2), Routers(2, 8, 9), Routers(2, 8, 0)])
def test_routers_that_cannot_route_are_refused(bad):
    with pytest.raises(ValueError, match="can't route"):
        RouteMap(BUNDLED, bad)


def test_routes_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"\[tokens, 4, 8\]"):
        RouteMap(BUNDLED, BUNDLED)(np.zeros((3, 4, 4), dtype=np.int64))


def test_an_expert_is_stood_for_by_the_share_of_its_stand_ins_that_are_held():
    wide = RouteMap(Routers(2, 4, 2), Routers(4, 8, 4))
    held = np.zeros((4, 8), dtype=bool)
    held[0:2, 0:2] = held[0, 3] = held[2:, 7] = True
    assert wide.stood_for(held).tolist() == [[1.0, 0.25, 0, 0], [0, 0, 0, 0.5]]
    narrow = RouteMap(Routers(1, 4, 2), Routers(2, 2, 1))
    assert narrow.stood_for(np.array([[True, False], [True, True]])).tolist() == [[1.0, 1.0, 0.5, 0.5]]
