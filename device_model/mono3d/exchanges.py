"""Exchanges between PUs, xPU and dies in a decode step, as far as reading weights does not hide them.

Tokens cross the interposer twice in each layer and each way, before attention and before experts, as norms and routers
are the xPU's (Stratum, 4.1). Each chip has its part of every matrix, so that it needs all tokens, and gives partial
sums of all, in FP16; its PUs gather the tokens from each other, and scatter the sums (Fig. 9). Dies add theirs up, each
by twice its share less its own, as in a ring.
"""

from device_model.mono3d.near_units import NearUnits
from device_model.mono3d.row_reads import RowReads
from device_model.mono3d.setup import Mono3dSetup
from device_model.roofline import Part, Unit
from device_model.size import ModelSize
from device_model.specs.kinds.mono3d import Hardware
from device_model.work import StepWork

VALUE_BYTES = 2
HANDOVERS = 2  # of a layer: before attention, and before experts
SHOWN = "all-gathers before the first GEMM, reduce-scatters after the last"


def ring_bytes(values: float, hardware: Hardware) -> float:
    """Return what a PU passes on of so many values that its chip gathers, or sums up: all but its own part."""
    pus = hardware.channels_per_chip
    return values * VALUE_BYTES * (pus - 1) / pus


class Exchanges:
    """The exchanges of a decode step of one model."""

    def __init__(self, setup: Mono3dSetup, size: ModelSize) -> None:
        self._model, self._hardware, self._calibration = setup.model, setup.hardware, setup.calibration
        self._size = size
        self._units = NearUnits(setup.hardware)

    def groups(self, work: StepWork, reads: RowReads, xpu: Unit) -> tuple[tuple[Part, ...], ...]:
        """Return the groups over ring and interposer, and between dies if there are more; one after the other."""
        ring = Part("ring", self._units.ring(), SHOWN, 0.0, link_bytes=self._ring_bytes(work, reads))
        crossing = self._crossing(work, xpu)
        if self._hardware.dies == 1:
            return (ring,), (crossing,)
        sums = HANDOVERS * self._model.layers * work.tokens * self._model.hidden_size * VALUE_BYTES
        bridged = 2 * (self._hardware.dies - 1) / self._hardware.dies * sums
        bridge = Part("bridge", self._units.bridge(), "partial sums of the other dies", 0.0, link_bytes=bridged)
        return (ring,), (crossing,), (bridge,)

    def wait_s(self) -> float:
        """Return the latencies of a step, in seconds: handovers between xPU and near-memory compute, one more for the
        LM head, and hops from die to die.
        """
        times = HANDOVERS * self._model.layers
        hops = times if self._hardware.dies > 1 else 0
        return (times + 1) * self._calibration.handover_s + hops * self._calibration.bridge_s

    def _ring_bytes(self, work: StepWork, reads: RowReads) -> float:
        """Return the bytes that a PU passes on while nothing else is done. Of experts the last reduce-scatter alone
        shows, that of as many tokens as an expert has on average; the others pass while the next one is read."""
        model, touch = self._model, reads.touch
        attention = 2 * work.tokens * model.layers
        mlp = 2 * work.tokens * model.dense_layers
        last = touch.choices / touch.touched if touch.touched else 0.0
        experts = (work.tokens + last) * model.expert_layers
        return ring_bytes((attention + mlp + experts + work.logits) * model.hidden_size, self._hardware)

    def _crossing(self, work: StepWork, xpu: Unit) -> Part:
        """Over the interposer: tokens to each chip and sums from each, what the xPU reads itself, and the logits."""
        model, weights = self._model, self._size.weights
        tokens = 2 * HANDOVERS * model.layers * self._hardware.chips * work.tokens * model.hidden_size
        logits = work.logits * model.vocab_size
        own = (weights.norms + weights.router) * model.static_bytes_per_weight
        moved = (tokens + logits) * VALUE_BYTES + own
        why = "tokens go to the xPU, and back"
        return Part("norms, routers", xpu, why, weights.router * work.tokens, ext_bytes=moved)
