"""The units of near-memory compute as `roofline` takes them: rates and prices by where the bytes lie.

A tile takes the longer of an activation of its bank and a cycle for each token that is multiplied with it (`tiles`), so
that a unit for weights has the bandwidth of its rows, and both rates are less by what tiles are not filled. A tile that
is larger than a row takes as many activations as it has rows. Rates are those of the fullest PE; joules are those of
the tiles that there are.
"""

from math import ceil

from device_model.arrays import Number
from device_model.mono3d.tiles import Tiles
from device_model.roofline import NEVER_BOUND, Unit
from device_model.specs.kinds.mono3d import Hardware
from device_model.specs.spec import NANO

NEAR = "NMP"


class NearUnits:
    """Makes units of the PEs of all chips."""

    def __init__(self, hardware: Hardware) -> None:
        self._hardware = hardware
        self._base = Unit(
            name=NEAR,
            macs_per_s=hardware.near_macs_per_s,
            hb_bytes_per_s=NEVER_BOUND,
            ext_bytes_per_s=NEVER_BOUND,
            link_bytes_per_s=hardware.ring_bytes_per_s,
            j_per_mac=hardware.j_per_mac,
            hb_j_per_byte=0.0,
            ext_j_per_byte=0.0,
            link_j_per_byte=0.0,
        )

    def weights(self, weights: float, weight_bytes: float, tiles: Tiles, trc_ns: float) -> Unit:
        """Return the unit for a matrix of so many weights, of `weight_bytes` each, that falls into `tiles` at
        `trc_ns`.
        """
        hardware = self._hardware
        filled = weights / (tiles.fullest * hardware.pes * hardware.tile_weights)
        read_bytes = weights * weight_bytes
        tile_rows = ceil(hardware.tile_weights * weight_bytes / hardware.row_bytes)
        opened_bytes = tiles.all * tile_rows * hardware.row_bytes
        return self._base._replace(
            macs_per_s=hardware.near_macs_per_s * filled,
            hb_bytes_per_s=read_bytes / (tiles.fullest * tile_rows * trc_ns * NANO),
            hb_j_per_byte=opened_bytes * hardware.read_j_per_byte / read_bytes,
        )

    def kv(self, trc_ns: Number, busy_share: float) -> Unit:
        """Return the unit for keys and values, whose whole rows are read in order, by that share of the PUs' time."""
        hardware = self._hardware
        return self._base._replace(
            macs_per_s=hardware.near_macs_per_s * busy_share,
            hb_bytes_per_s=hardware.row_bytes_of_all * busy_share / (trc_ns * NANO),
            hb_j_per_byte=hardware.read_j_per_byte,
        )

    def ring(self) -> Unit:
        """Return the unit for bytes that PUs exchange with each other while nothing else can be done. Its joules are
        the logic's.
        """
        return self._base

    def special_functions(self) -> Unit:
        """Return the unit for activations and softmax, an operation an element. Its joules are the logic's."""
        rate = self._hardware.special_functions_per_s
        return self._base._replace(name="special functions", macs_per_s=rate, j_per_mac=0.0)

    def bridge(self) -> Unit:
        """Return the unit for bytes that xPU dies exchange. Its joules are theirs."""
        return self._base._replace(name="bridge", link_bytes_per_s=self._hardware.bridge_bytes_per_s or NEVER_BOUND)
