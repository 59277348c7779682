"""Are all weights covered by tiles, and few tiles for nothing?"""

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.mono3d.attention import head_groups
from device_model.mono3d.tiles import mlp_tiles, shared_tiles, split_tiles
from device_model.specs.hardware_file import load_hardware

HARDWARE = [load_hardware(name) for name in ("stratum-s", "stratum-l", "stratum-xl")]
widths = st.integers(1, 60_000)


@given(st.sampled_from(HARDWARE), widths, widths)
def test_tiles_cover_a_matrix(hardware, rows, columns):
    for tiles in (split_tiles(rows, columns, hardware), shared_tiles(rows, columns, hardware)):
        assert tiles.fullest * hardware.pes >= tiles.all >= rows * columns / 256
    assert shared_tiles(rows, columns, hardware).fullest <= split_tiles(rows, columns, hardware).fullest


def test_experts_that_fit_the_grid_waste_nothing_and_others_do():
    small, large, largest = HARDWARE
    assert mlp_tiles(2048, 1024, small).fullest * small.pes * 256 == 3 * 2048 * 1024
    # 448 if nothing were left over
    assert mlp_tiles(4096, 14336, large).fullest == 3 * 16 * ceil(14336 / 96 / 16) == 480
    assert mlp_tiles(5120, 8192, largest).fullest == 180  # 160


@given(st.integers(1, 4096), st.sampled_from([1, 6, 12]), st.sampled_from([1, 12, 16]))
def test_groups_of_pus_do_all_heads_and_none_spans_two_chips(heads, chips, pus):
    shared = head_groups(heads, chips, pus)
    assert shared.groups % chips == 0 and pus % (shared.groups // chips) == 0
    assert shared.groups * shared.heads >= heads
    assert 0 < shared.busy_share <= 1
    assert shared.hides_softmax == (heads >= 2)


@pytest.mark.parametrize(
    ("heads", "groups", "each", "busy"),
    [(1, 12, 1, 1 / 12), (8, 12, 2, 1 / 3), (96, 48, 2, 1), (512, 12, 43, 512 / 516)],
)
def test_groups_have_two_heads_at_least_and_as_few_are_idle_as_can_be(heads, groups, each, busy):
    assert head_groups(heads, 12, 16) == (groups, each, pytest.approx(busy))
