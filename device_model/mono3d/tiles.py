"""Into how many tiles of 16 x 16 weights a PE's part of a matrix falls.

A tensor core multiplies tokens with one tile at a time, a token a cycle (Stratum, Table 3). One activation of a bank
feeds one tile: a row of 4,096 B holds eight of them, and its seven others are read again. The paper does not say so.
Its absolute request times (Table 4) are eight times those of its stated bandwidth, and the share of a step that its
tiers change (6.3.2, 6.3.3) says that nearly all of that is activations.

Matrices of experts and MLPs are split as 4.1 says: one dimension over all PUs, so that nothing is exchanged between the
GEMMs, the other over the PEs of a PU. What is left over of a tile is read and computed for nothing. Other matrices are
shared out tile by tile.
"""

from math import ceil

from device_model.specs.kinds.mono3d import Hardware


def split_tiles(over_pus: int, over_pes: int, hardware: Hardware) -> int:
    """Return the tiles of the fullest PE if one dimension of a matrix is split over PUs, and the other over the PEs of
    a PU.
    """
    across = ceil(over_pus / (hardware.pus * hardware.tile_edge))
    along = ceil(over_pes / (hardware.banks_per_channel * hardware.tile_edge))
    return across * along


def shared_tiles(rows: int, columns: int, hardware: Hardware) -> int:
    """Return the tiles of the fullest PE if the tiles of a matrix are shared out among all PEs."""
    tiles = ceil(rows / hardware.tile_edge) * ceil(columns / hardware.tile_edge)
    return ceil(tiles / hardware.pes)


def mlp_tiles(hidden_size: int, intermediate_size: int, hardware: Hardware) -> int:
    """Return the tiles of the fullest PE for an expert or MLP: gate and up split by columns over PUs, down by rows
    (Fig. 8).
    """
    return 3 * split_tiles(intermediate_size, hidden_size, hardware)
