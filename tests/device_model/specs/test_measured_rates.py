"""Are measured rates those of the file at its points, in between in between, and refused where they mean nothing?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.acceptance import acceptance_of, batch_plan, measured_of
from device_model.specs.measured_rates import MeasuredRates, read_measured
from device_model.specs.spec import DeviceError, SpecError
from device_model.speculation import accepted_at
from device_model.step import DraftShape, StepPlan
from device_model.tree_law import accepted_of
from tests.device_model.speculating import device

GIVEN = """# of nothing in particular
pool,share,batch,depth,alpha
hot,0.25,1,5,0.4
hot,0.5,1,5,0.6
hot,1,1,5,0.8
hot,0.25,16,5,0.2
hot,0.5,16,5,0.5
hot,1,16,5,0.8
random,0.5,1,5,0.3
quantised,1,1,5,0.9
"""

CHAIN = DraftShape(5, 1, 5)
"""What was measured."""


@pytest.fixture
def rates(tmp_path) -> MeasuredRates:
    (tmp_path / "rates.csv").write_text(GIVEN)
    return read_measured(tmp_path / "rates.csv")


def test_at_its_points_a_rate_is_what_was_measured(rates):
    assert rates.alpha("hot", 0.25, 1) == 0.4 and rates.alpha("hot", 0.5, 16) == 0.5
    assert rates.alpha("random", 0.5, 8) == 0.3


def test_between_them_it_is_between_and_with_no_expert_nothing_is_accepted(rates):
    assert rates.alpha("hot", 0.375, 1) == pytest.approx(0.5)
    assert rates.alpha("hot", 0.25, 4) == pytest.approx(0.3)
    assert rates.alpha("hot", 0.125, 1) == pytest.approx(0.2) and rates.alpha("hot", 0.0, 1) == 0
    assert rates.alpha("hot", 0.5, 64) == 0.5


@given(st.floats(0, 1), st.integers(1, 64))
def test_the_bundled_rates_are_shares(share, batch):
    bundled = read_measured()
    assert set(bundled.points) == {"hot", "random", "quantised"}
    assert all(0 <= bundled.alpha(pool, share, batch) <= 1 for pool in bundled.points)


def test_a_device_has_the_rate_of_the_share_that_its_pool_has(rates):
    dev = device("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b", "elastic")
    work = batch_plan(1)
    tokens = 1025 + dev.draft.shape.tokens
    share = dev.draft.drafted_share(dev, dev.placement.at(tokens * dev.size.kv_bytes_per_token))
    assert 0.3 < share < 0.6
    depth = dev.draft.shape.depth
    as_tree = accepted_of(rates.alpha("hot", share, 1), CHAIN, dev.draft.shape) / depth
    assert measured_of(dev, work, rates).alpha == pytest.approx(as_tree)
    assert as_tree > accepted_at(rates.alpha("hot", share, 1), 5, depth) / depth
    assert measured_of(dev, StepPlan.of((1, 20_000)), rates).alpha < measured_of(dev, work, rates).alpha


def test_quantised_drafts_have_all_experts_and_other_models_their_published_rate(rates):
    quant = device("elmoe3d", "elmoe3d-8gb", "glm-4.7-flash", "quant")
    depth = quant.draft.shape.depth
    assert measured_of(quant, batch_plan(4), rates).alpha == pytest.approx(
        accepted_of(0.9, CHAIN, quant.draft.shape) / depth
    )
    eagle = device("elmoe3d", "elmoe3d-8gb", "glm-4.7-flash", "eagle")
    found = measured_of(eagle, batch_plan(4), rates)
    assert found.alpha == acceptance_of(eagle, batch_plan(4)).alpha and "EAGLE3 was not measured" in found.caveat


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pool,share\nhot,1\n", "required are pool, share, batch, depth, alpha"),
        (GIVEN.replace("0.6", "1.6"), "point 2: alpha is '1.6'"),
        (GIVEN.replace("0.6", "nan"), "point 2: alpha is 'nan'"),
        (GIVEN.replace("hot,0.25,1,", "hot,0,1,"), "point 1: share is '0'"),
        (GIVEN.replace("hot,1,1,5", "hot,1,1,6"), r"depth is \[5, 6\]"),
    ],
)
def test_a_bad_file_is_refused_by_name(tmp_path, text, said):
    (tmp_path / "rates.csv").write_text(text)
    with pytest.raises(SpecError, match=said) as caught:
        read_measured(tmp_path / "rates.csv")
    assert "rates.csv" in str(caught.value)


def test_no_file_and_no_such_pool_are_refused(rates, tmp_path):
    with pytest.raises(SpecError, match="can't be read"):
        read_measured(tmp_path / "none.csv")
    with pytest.raises(DeviceError, match="there is hot, random, quantised"):
        rates.alpha("cold", 0.5, 1)
