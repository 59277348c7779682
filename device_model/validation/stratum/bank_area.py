"""The area of a bank of 1 Gb by its layers (Stratum, Table 1 and Fig. 12, 14).

Cells shrink as 1 / layers. Staircases don't: each is as long as it has layers, and there are as many fewer of them.
"""

BANK_MM2 = 0.439
"""Table 1: with 1,024 layers."""
CELLS = 1024 * 1024
"""Positions of a bank, 1,024 MATs of 1,024 bit lines, each over all layers."""
CELL_MM2 = 70e-6 * 1e-3
"""Table 1: pitches of bit and word lines, 70 nm and 1 um."""


def bank_mm2(layers: int, all_layers: int) -> float:
    """Return the area of a bank of the same capacity with `layers` in place of `all_layers`."""
    cells_mm2 = CELLS * CELL_MM2
    return cells_mm2 * all_layers / layers + BANK_MM2 - cells_mm2
