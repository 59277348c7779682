"""How long a step takes: a roofline for each of its phases, one after the other."""

from typing import NamedTuple

import numpy as np

from device_model.step import FloatArray


class Phase(NamedTuple):
    """What a part of a step asks of the hardware. Within it compute, HB and EXT work at the same time.

    Each figure is a number, or an array over steps.
    """

    macs: float | FloatArray
    hb_bytes: float | FloatArray
    ext_bytes: float | FloatArray


class Rates(NamedTuple):
    """What the hardware does in a second."""

    macs_per_s: float
    hb_bytes_per_s: float
    ext_bytes_per_s: float


def latency_s(phases: tuple[Phase, ...], rates: Rates) -> float | FloatArray:
    """Seconds of `phases`. They follow upon each other layer by layer, so that their times add, and so may the layers
    of a phase be taken together, being alike.

    PSUM exchange costs no time: ELMoE-3D overlaps it with memory access and compute (5.2).
    """
    total: float | FloatArray = 0.0
    for phase in phases:
        memory_s = np.maximum(phase.hb_bytes / rates.hb_bytes_per_s, phase.ext_bytes / rates.ext_bytes_per_s)
        total = total + np.maximum(memory_s, phase.macs / rates.macs_per_s)
    return total
