"""Bound of a cell of Table 3: the highest speedup in AR mode that any cache of its size allows, and the hits that the
published one needs.

A step that reads the expert bytes X beside D of static weights and KV takes D / HB + (X - H) / EXT seconds, where HB
serves the bytes H of X. A pass reads each expert once, so that H is at most what HB holds of them.
"""

from typing import NamedTuple

from device_model.acceptance import batch_plan
from device_model.arrays import least
from device_model.experts.fidelity import CacheAsk
from device_model.experts.locality_laws import Experts
from device_model.experts.residency import Reads
from device_model.load import make_device
from device_model.setup import XpuSetup
from device_model.step import StepPlan
from device_model.validation.cells import drafting_device
from device_model.validation.table3 import Cell
from device_model.work import StepWork

# By which a published figure may be above its bound before it resists: rows without a cache are met to 2 %, of which
# GLM-4.7-Flash at batch 1 is the farthest off.
TOLERANCE = 0.02


class Bound(NamedTuple):
    """In a step of AR: the `slices` (experts of one layer) that HB holds, the speedup of one that serves none of them
    and of one that serves all it can, and the slices that must be served for the published one (None without)."""

    slices: float
    cacheless_phi_ar: float
    highest_phi_ar: float
    needed: float | None

    def resists(self, cell: Cell) -> bool:
        """Tell whether no cache reaches what is published of `cell`."""
        return cell.phi_ar is not None and cell.phi_ar > self.highest_phi_ar * (1 + TOLERANCE)


class _Serving:
    """A cache that serves a share of what it holds, 0 or 1, whatever is read."""

    def __init__(self, experts: Experts, slices: int, share: float) -> None:
        self._experts = experts
        self._slices = slices
        self._share = share

    def probe(self, ask: CacheAsk) -> Reads:
        read = self._experts.touched(ask.tokens) * self._slices
        return Reads(read, float(self._share * least(ask.slices, read)), 0.0)

    def commit(self, ask: CacheAsk) -> Reads:
        return self.probe(ask)


def bound_of(cell: Cell, setup: XpuSetup) -> Bound:
    """Return the bound of a cell under `setup`, which is that of its hardware and target."""
    plan = batch_plan(cell.batch)
    base_s = float(make_device("xpu", setup).probe(plan).latency_s[0])
    none_s, best_s = (_step_s(cell, setup, plan, share) for share in (0.0, 1.0))
    device, _ = drafting_device(cell, setup)
    work = StepWork.of(plan, 1)
    slices = float(device.ask(work, device.held(work), plan).slices)
    needed = None
    if cell.phi_ar is not None:
        needed = (none_s - base_s / cell.phi_ar) * device.ext_bytes_per_s / device.size.expert_bytes
    return Bound(slices, base_s / none_s, base_s / best_s, needed)


def _step_s(cell: Cell, setup: XpuSetup, plan: StepPlan, share: float) -> float:
    device, _ = drafting_device(cell, setup)
    device.cache = _Serving(device.experts, device.size.experts, share)
    return float(device.probe(plan).latency_s[0])
