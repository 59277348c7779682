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
        assert tiles * hardware.pes * 256 >= rows * columns
    assert shared_tiles(rows, columns, hardware) <= split_tiles(rows, columns, hardware)


def test_experts_that_fit_the_grid_waste_nothing_and_others_do():
    small, large, largest = HARDWARE
    assert mlp_tiles(2048, 1024, small) * small.pes * 256 == 3 * 2048 * 1024
    assert mlp_tiles(4096, 14336, large) == 3 * 16 * ceil(14336 / 96 / 16) == 480  # 448 if nothing were left over
    assert mlp_tiles(5120, 8192, largest) == 180  # 160


@given(st.integers(1, 4096), st.sampled_from([16, 96, 192]))
def test_groups_of_pus_do_all_heads(heads, pus):
    shared = head_groups(heads, pus)
    assert pus % shared.groups == 0 and shared.groups * shared.heads >= heads
    assert 0 < shared.busy_share <= 1
    assert shared.hides_softmax == (heads >= 2)


@pytest.mark.parametrize(("heads", "groups"), [(8, 4), (256, 64), (512, 64)])
def test_as_many_groups_as_leave_two_heads_to_each_and_none_idle(heads, groups):
    assert head_groups(heads, 192)[:2] == (groups, heads // groups)
