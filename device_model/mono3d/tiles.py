"""Tiles of 16 x 16 weights that a matrix falls into: those of the fullest PE, and those of all.

A tensor core multiplies tokens with one tile at a time, a token a cycle (Stratum, Table 3). One activation of a bank
feeds one tile: a row of 4,096 B holds eight of them, and its seven others are read again. The paper does not say so.
Its absolute request times (Table 4) are eight times those of its stated bandwidth, and the share of a step that its
tiers change (6.3.2, 6.3.3) says that nearly all of that is activations.

Matrices of experts and MLPs are split as 4.1 says: one dimension over all PUs, so that nothing is exchanged between the
GEMMs, the other over the PEs of a PU. What is left over of a tile is read and computed for nothing. Other matrices are
shared out tile by tile. A PE with fewer tiles than the fullest waits for it, and opens no row meanwhile: each has a
memory controller of its own (3.2).
"""

from math import ceil
from typing import NamedTuple

from device_model.specs.kinds.mono3d import Hardware


class Tiles(NamedTuple):
    """Tiles of one or more matrices: of the fullest PE, which says how long they take, and of all PEs together, which
    says how many rows are opened."""

    fullest: int
    all: int

    def times(self, matrices: int) -> "Tiles":
        """Return those of so many such matrices, one after the other."""
        return Tiles(self.fullest * matrices, self.all * matrices)

    def plus(self, other: "Tiles") -> "Tiles":
        """Both, one after the other."""
        return Tiles(self.fullest + other.fullest, self.all + other.all)


def split_tiles(over_pus: int, over_pes: int, hardware: Hardware) -> Tiles:
    """Return the tiles of a matrix of which one dimension is split over PUs, and the other over the PEs of a PU."""
    across, along = ceil(over_pus / hardware.tile_edge), ceil(over_pes / hardware.tile_edge)
    return Tiles(ceil(across / hardware.pus) * ceil(along / hardware.banks_per_channel), across * along)


def shared_tiles(rows: int, columns: int, hardware: Hardware) -> Tiles:
    """Return the tiles of a matrix that are shared out among all PEs."""
    tiles = ceil(rows / hardware.tile_edge) * ceil(columns / hardware.tile_edge)
    return Tiles(ceil(tiles / hardware.pes), tiles)


def mlp_tiles(hidden_size: int, intermediate_size: int, hardware: Hardware) -> Tiles:
    """Return the tiles of an expert or MLP: gate and up split by columns over PUs, down by rows (Fig. 8)."""
    return split_tiles(intermediate_size, hidden_size, hardware).times(3)
