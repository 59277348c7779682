"""What the papers print of acceptance, in text and tables; figures whose values are in no text are left out."""

from functools import lru_cache
from statistics import mean
from typing import NamedTuple

from device_model.acceptance import batch_plan
from device_model.hb_xpu.tiered import TieredDevice
from device_model.load import load_device
from device_model.validation.table3 import Cell, read_cells
from device_model.work import StepWork

HOTNESS_GAIN = 1.22
"""ELMoE-3D, 7.3 B: "~22% higher acceptance than random selection", in accepted length, GLM-4.7-Flash on MT-Bench."""
QUANT = (0.60, 0.95)
"""ELMoE-3D, 7.1: Quant-SD's alpha, a dedicated 4-bit copy of the target."""
CASSANDRA = {"cassandra-1": (5, 0.74, 0.88), "cassandra-2": (3, 0.74, 0.91)}
"""Cassandra, Table IV: draft tokens, and the lowest and highest acceptance rate of three models and four benchmarks."""
CASSANDRA_MEAN = {
    "cassandra-1": mean((0.78, 0.77, 0.74, 0.78, 0.76, 0.74, 0.88, 0.84, 0.78, 0.86, 0.79, 0.78)),
    "cassandra-2": mean((0.80, 0.75, 0.74, 0.79, 0.76, 0.76, 0.91, 0.85, 0.79, 0.90, 0.81, 0.81)),
}
EXPONENT_BITS = {"entropy": 2.6, "unary": 2.85}
"""Cassandra, IV-B and Fig. 6: of BFloat16 weights (the unary figure of weights and KV cache)."""


class PublishedElastic(NamedTuple):
    """A cell of ELMoE-3D's Table 3 under Elastic-SD, with the share of the experts that HB has room for."""

    target: str
    hb_gb: float
    batch: int
    alpha: float
    share: float  # as `device_model` places things: the paper does not print it


@lru_cache(maxsize=1)
def elastic_cells() -> tuple[PublishedElastic, ...]:
    """Return the cells of Elastic-SD. GPT-OSS's experts are not sliced: its pool holds them whole."""
    cells = [cell for cell in read_cells() if cell.draft == "Elastic-SD"]
    return tuple(PublishedElastic(cell.target, cell.hb_gb, cell.batch, cell.alpha, _share(cell)) for cell in cells)


def _share(cell: Cell) -> float:
    device = load_device("elmoe3d", cell.hardware, cell.model, "elastic")
    assert isinstance(device, TieredDevice) and device.draft is not None
    held = device.held(StepWork.of(batch_plan(cell.batch), 1), device.draft.shape)
    return device.draft.drafted_share(device, held)
