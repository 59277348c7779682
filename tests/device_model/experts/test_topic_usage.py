"""Is a table of experts by topic read as it is, and carried over to the routers of other models as routes are?"""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.experts.route_map import RouteMap, Routers
from device_model.experts.topic_usage import UNKNOWN, TopicUsage, read_usage
from device_model.specs.spec import SpecError

BUNDLED = Path(__file__).parents[3] / "serving" / "bundled" / "foreserve-moe" / "experts_by_topic.json"
SOURCE = Routers(layers=4, experts=64, top_k=4)
TARGETS = {
    "qwen3-30b-a3b": Routers(48, 128, 8),
    "glm-4.7-flash": Routers(46, 64, 4),
    "gpt-oss-20b": Routers(24, 32, 4),
    "deepseek-v2-lite": Routers(26, 64, 6),
    "nothing like it": Routers(3, 100, 7),
    "all of them": Routers(2, 16, 16),
}
targets = st.sampled_from(list(TARGETS.values()))


@st.composite
def tables(draw):
    """Usage of 1 to 3 topics by 1 to 3 layers of 4 to 12 experts, from even to all on one expert."""
    shape = tuple(draw(st.integers(low, high)) for low, high in ((1, 3), (1, 3), (4, 12)))
    random = np.random.default_rng(draw(st.integers(0, 10**6)))
    shares = random.random(shape) ** draw(st.sampled_from([0.0, 1.0, 4.0, 40.0]))
    return TopicUsage(tuple("abc"[: shape[0]]), shares / shares.sum(axis=-1, keepdims=True))


def test_the_bundled_table_has_the_topics_of_the_corpus():
    usage = read_usage(BUNDLED)
    assert usage.topics == ("legal", "humanities", "cs", "science", "math", "logic", "other")
    assert usage.shares.shape == (7, 4, 64)
    np.testing.assert_allclose(usage.shares.sum(axis=-1), 1.0)
    as_shipped = np.array(list(json.loads(BUNDLED.read_text()).values()))
    np.testing.assert_allclose(usage.shares, as_shipped, atol=1e-5)
    assert usage.index("cs") == 2 and usage.index("gardening") == UNKNOWN


@given(targets)
def test_chances_are_chances_and_a_token_chooses_top_k_of_a_layer(target):
    chances = read_usage(BUNDLED).chances(target)
    assert chances.shape == (7, target.layers, target.experts)
    assert chances.min() > 0 and chances.max() <= 1
    np.testing.assert_allclose(chances.sum(axis=-1), target.top_k)


@given(tables(), st.integers(1, 5), st.integers(1, 30), st.integers(1, 30))
def test_however_uneven_the_table(usage, layers, experts, top_k):
    chances = usage.chances(Routers(layers, experts, min(top_k, experts)))
    assert chances.min() > 0 and chances.max() <= 1
    np.testing.assert_allclose(chances.sum(axis=-1), min(top_k, experts))


@given(tables(), st.integers(1, 4))
def test_what_is_used_more_is_never_chosen_less(usage, top_k):
    shares, chances = usage.shares, usage.chances(Routers(usage.shares.shape[1], usage.shares.shape[2], top_k))
    more = shares[..., :, None] >= shares[..., None, :]
    assert (chances[..., :, None] >= chances[..., None, :] - 1e-12)[more].all()


def test_where_no_share_is_too_large_chances_are_in_proportion():
    usage = read_usage(BUNDLED)
    np.testing.assert_allclose(usage.chances(SOURCE), 4 * usage.shares, atol=1e-3)


@pytest.mark.parametrize("name", ["qwen3-30b-a3b", "glm-4.7-flash", "gpt-oss-20b"])
def test_they_are_what_mapped_routes_choose(name):
    """Routes with the table's popularity, mapped by `route_map`, choose as its chances say: to a few percent of an even
    share, for a token's choices differ from each other."""
    target, tokens, draw = TARGETS[name], 20_000, np.random.default_rng(5)
    usage = read_usage(BUNDLED)
    legal = usage.shares[0]
    keys = np.log(np.maximum(legal, 1e-9)) + draw.gumbel(size=(tokens, *legal.shape))
    routes = np.argsort(-keys, axis=-1)[..., : SOURCE.top_k]
    counts = np.stack([np.bincount(layer.ravel(), minlength=64) for layer in routes.transpose(1, 0, 2)])
    drawn = TopicUsage(("legal",), counts[None] / counts.sum(axis=-1, keepdims=True))
    mapped = RouteMap(SOURCE, target)(routes)
    found = np.stack([np.bincount(layer.ravel(), minlength=target.experts) for layer in mapped.transpose(1, 0, 2)])
    off = np.abs(found / tokens - drawn.chances(target)[0]) / (target.top_k / target.experts)
    assert off.mean() < 0.05 and off.max() < 0.35


# --- mixes ---


@given(st.lists(st.integers(-1, 6), min_size=1, max_size=40))
def test_a_mix_weighs_each_topic_by_its_sequences_and_shares_out_the_unknown(topics):
    mix = read_usage(BUNDLED).mix(np.array(topics))
    unknown = topics.count(UNKNOWN)
    assert mix == pytest.approx([(topics.count(i) + unknown / 7) / len(topics) for i in range(7)])
    assert sum(mix) == pytest.approx(1)


# --- files ---


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "can't be read; allowed is JSON"),
        ("[]", "has no topics"),
        ("{}", "has no topics"),
        ('{"cs": 3}', "cs has no table"),
        ('{"cs": [["x"]]}', "cs has no table"),
        ('{"cs": [[0.5, 0.5], [1.0]]}', "cs has no table"),
        ('{"cs": [[1.5, -0.5]]}', "cs has no table"),
        ('{"cs": [[NaN, 0.5]]}', "cs has no table"),
        ('{"cs": [[0.5, 0.5]], "math": [[0.5, 0.4]]}', "a layer of math does not sum to 1"),
        ('{"cs": [[0.5, 0.5]], "math": [[1.0]]}', "math has another shape"),
    ],
)
def test_a_bad_file_is_refused_by_name(tmp_path, text, said):
    (tmp_path / "usage.json").write_text(text)
    with pytest.raises(SpecError, match=said) as caught:
        read_usage(tmp_path / "usage.json")
    assert "usage.json" in str(caught.value)


def test_no_file_is_refused(tmp_path):
    with pytest.raises(SpecError, match="can't be read"):
        read_usage(tmp_path / "none.json")
