"""Are the times of rows those of Table 1, and of the law through them?"""

from dataclasses import replace

import numpy as np
import pytest

from device_model.mono3d.row_times import RowTimes
from device_model.specs.hardware_file import load_hardware
from device_model.specs.row_timing import trcd_ns
from device_model.specs.spec import Contradiction, SpecError

TABLE_1 = np.array([2.29, 3.92, 5.99, 8.50, 11.44, 14.82, 18.63, 22.88])


def times(name):
    return RowTimes(load_hardware(name))


def test_published_layers_have_the_published_times():
    assert times("stratum-s").trc_ns == pytest.approx(TABLE_1 + 27.50 + 4.77)


def test_the_law_through_them_misses_none_by_more_than_three_picoseconds():
    ends = np.arange(1, 9)
    law = np.polyval(np.polyfit(ends, TABLE_1, 2), ends)
    assert abs(law - TABLE_1).max() < 0.003
    assert np.polyfit(ends, TABLE_1, 2) == pytest.approx([0.2179, 0.9805, 1.0895], abs=5e-4)


def test_a_tier_that_ends_at_the_same_layer_opens_in_the_same_time():
    halved = trcd_ns(TABLE_1, 1024, 512)
    assert halved[1::2] == pytest.approx(TABLE_1[:4], abs=0.003)


@pytest.mark.parametrize(("fewer", "more"), [(64, 256), (256, 768), (768, 1024)])
def test_more_layers_are_never_faster(fewer, more):
    assert (times(f"stratum-s-{fewer}").trc_ns < times(f"stratum-s-{more}").trc_ns).all()


def test_segments_of_512_layers_have_the_published_ratio_and_not_that_of_the_law():
    segments = times("stratum-l-512").trc_ns
    assert segments[-1] / segments[0] == pytest.approx(1.3)
    assert 1.15 < times("stratum-l-511").trc_ns[-1] / times("stratum-l-511").trc_ns[0] < 1.21


@pytest.mark.parametrize("layers", [256, 512, 1024])
def test_tiers_that_take_equally_long_do_so_with_any_layers(layers):
    even = replace(load_hardware("stratum-s"), trcd_ns=(5.0,) * 8, layers=layers)
    assert even.trc_ns == pytest.approx([5.0 + 27.50 + 4.77] * 8)


def test_two_tiers_have_times_in_proportion_to_their_layers():
    assert trcd_ns(np.array([5.0, 10.0]), 1024, 512) == pytest.approx([2.5, 5.0])


def test_layers_with_which_tiers_would_take_no_time_or_less_than_the_one_before_are_refused():
    steep = replace(load_hardware("stratum-s"), trcd_ns=(1.0, 40.0, 41.0))
    with pytest.raises(Contradiction, match="rises from above 0 with 256 layers, too") as refused:
        replace(steep, layers=256)
    assert refused.value.key == "trcd_ns"
    with pytest.raises(SpecError, match=r"trcd_ns is \[1.0, 40.0, 41.0\]; allowed is a series whose law .* rises"):
        steep.variant("256")


def test_without_tiers_all_rows_take_what_the_slowest_do():
    assert set(times("stratum-s-flat").trc_ns) == {times("stratum-s").trc_ns[-1]}


def test_the_mean_over_rows_is_that_of_their_tiers():
    rows = times("stratum-s")
    trc_ns, tier_rows = rows.trc_ns, rows.rows / 8
    assert rows.between(0, rows.rows) == pytest.approx(trc_ns.mean()) == pytest.approx(rows.mean_ns)
    assert rows.between(tier_rows, 3 * tier_rows) == pytest.approx((trc_ns[1] + trc_ns[2]) / 2)
    assert rows.between(0.5 * tier_rows, 1.5 * tier_rows) == pytest.approx((trc_ns[0] + trc_ns[1]) / 2)
    assert rows.between(5.5 * tier_rows, 5.5 * tier_rows) == pytest.approx(trc_ns[5])
    assert rows.between(np.array([0.0, tier_rows]), np.array([1.0, tier_rows + 1])) == pytest.approx(trc_ns[:2])
    assert rows.tier_of(np.array([0.0, tier_rows - 1, tier_rows, rows.rows - 1])).tolist() == [0, 0, 1, 7]
