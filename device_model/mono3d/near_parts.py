"""Near-memory parts of a decode step: projections, attention and experts.

Everything is decoded near memory, LM head included: with projections on the xPU, behind the interposer, request times
are off by a third (Stratum, Table 4). Only norms and routers are the xPU's (4.1; `exchanges`).
"""

from math import ceil

from device_model.arrays import Number
from device_model.mono3d.attention import SOFTMAX_STEPS, head_groups
from device_model.mono3d.exchanges import ring_bytes
from device_model.mono3d.layout import Layout
from device_model.mono3d.near_units import NearUnits
from device_model.mono3d.row_reads import RowReads
from device_model.mono3d.row_times import RowTimes
from device_model.mono3d.setup import Mono3dSetup
from device_model.mono3d.tiles import Tiles, mlp_tiles, shared_tiles
from device_model.roofline import Part, Unit
from device_model.size import ModelSize
from device_model.specs.spec import GQA
from device_model.work import StepWork

Groups = tuple[tuple[Part, ...], ...]
# Of the three GEMMs of an expert only one hides the activation (Stratum, Fig. 9), which must take a third of the time.
GEMMS = 3
SPLIT = "split over all banks of all chips"
PIPELINE = "one expert after the other, each split over all PUs; sums pass on while the next one is read"


class NearParts:
    """The parts of a decode step of one model."""

    def __init__(self, setup: Mono3dSetup, size: ModelSize, layout: Layout, times: RowTimes) -> None:
        self._model, self._hardware = setup.model, setup.hardware
        self._size, self._layout, self._times = size, layout, times
        self._units = NearUnits(setup.hardware)
        self._special = self._units.special_functions()
        self._dense_ns = times.mean_ns if layout.even else float(times.between(layout.hot_end, layout.dense_end))
        self._shared_ns = float(times.between(0.0, layout.shared_end))

    def dense(self, work: StepWork) -> Groups:
        """Return the groups for weights that every token needs: projections, MLPs, shared experts and the LM head."""
        model, weights = self._model, self._size.weights
        groups = [
            self._matrices("projections", weights.attention, self._projection_tiles().times(model.layers), work.tokens),
            self._matrices("LM head", weights.table, self._head_tiles(), work.logits),
        ]
        if model.dense_layers:
            tiles = mlp_tiles(model.hidden_size, model.dense_intermediate_size, self._hardware).times(
                model.dense_layers
            )
            groups.append(self._matrices("MLP", weights.dense, tiles, work.tokens))
        if model.shared_experts:
            width = model.shared_expert_intermediate_size or model.expert_intermediate_size
            matrices = model.shared_experts * model.expert_layers
            tiles = mlp_tiles(model.hidden_size, width, self._hardware).times(matrices)
            unit = self._unit(weights.shared_experts, tiles, self._shared_ns)
            groups.append(self._part("shared experts", unit, SPLIT, weights.shared_experts, work.tokens))
        return tuple((part,) for part in groups)

    def experts(self, reads: RowReads) -> Groups:
        """Return the groups for routed experts: hot ones, then cold ones. Each takes the longest of its activations,
        its MACs and the reduce-scatter of the one before it (Stratum, Fig. 9).
        """
        touch = reads.touch
        hot = self._experts("hot experts", touch.hot, touch.hot_choices, reads.hot_ns)
        cold = self._experts("cold experts", touch.cold, touch.cold_choices, reads.cold_ns)
        return (*hot, *cold)

    def attention(self, work: StepWork, kv_rows: Number) -> Groups:
        """Return the groups for scores and weighted values at the bandwidth of whole rows, and for the softmax, hidden
        where it can be.
        """
        heads = (self._model.kv_heads if self._model.attention == GQA else 1) * work.sequences
        shared = head_groups(heads, self._hardware.chips, self._hardware.channels_per_chip)
        unit = self._units.kv(self._layout.kv_ns(self._times, kv_rows), shared.busy_share)
        macs = self._size.attention_macs(work)
        why = f"{shared.groups} groups of PUs with {shared.heads} heads each"
        products = Part("attention", unit, why, macs, self._size.kv_traffic_bytes(work))
        scores = macs / self._size.pair_macs * (self._model.q_heads * self._model.layers)
        softmax = Part("softmax", self._special, why, SOFTMAX_STEPS * scores)
        return ((products, softmax),) if shared.hides_softmax else ((products,), (softmax,))

    def _matrices(self, name: str, weights: int, tiles: Tiles, tokens: int) -> Part:
        return self._part(name, self._unit(weights, tiles, self._dense_ns), SPLIT, weights, tokens)

    def _unit(self, weights: int, tiles: Tiles, trc_ns: float) -> Unit:
        return self._units.weights(weights, self._model.static_bytes_per_weight, tiles, trc_ns)

    def _part(self, name: str, unit: Unit, why: str, weights: int, tokens: int) -> Part:
        return Part(name, unit, why, weights * tokens, weights * self._model.static_bytes_per_weight)

    def _experts(self, name: str, touched: float, choices: float, trc_ns: float) -> Groups:
        if not touched:
            return ()
        model, weights = self._model, self._size.weights.expert
        tiles = mlp_tiles(model.hidden_size, model.expert_intermediate_size, self._hardware)
        unit = self._units.weights(weights, model.expert_bytes_per_weight, tiles, trc_ns)
        scattered = ring_bytes(choices * model.hidden_size, self._hardware)
        read = touched * self._size.expert_bytes
        part = Part(name, unit, PIPELINE, weights * choices, read, link_bytes=scattered)
        elements = GEMMS * choices * model.expert_intermediate_size
        return ((part, Part("activation", self._special, "beside the second GEMM", elements)),)

    def _projection_tiles(self) -> Tiles:
        """Tiles of a layer's projections."""
        model, hardware = self._model, self._hardware
        if model.attention != GQA:
            tiles = ceil(self._size.weights.attention / model.layers / hardware.tile_weights)
            return Tiles(ceil(tiles / hardware.pes), tiles)
        queries = model.q_heads * model.head_dim
        qkv = shared_tiles(model.hidden_size, queries + 2 * model.kv_heads * model.head_dim, hardware)
        return qkv.plus(shared_tiles(queries, model.hidden_size, hardware))

    def _head_tiles(self) -> Tiles:
        return shared_tiles(self._model.hidden_size, self._model.vocab_size, self._hardware)
