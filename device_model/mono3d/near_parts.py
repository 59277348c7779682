"""What a decode step does near memory: projections, attention, experts, and what passes between them.

Everything is decoded near memory, LM head included: with projections on the xPU, behind the interposer, request times
are off by a third (Stratum, Table 4). Norms and routers are the xPU's (4.1), so that tokens cross the interposer twice
in each layer and each way. All is FP16, as the logic computes it.
"""

from math import ceil

from device_model.arrays import Number
from device_model.mono3d.attention import SOFTMAX_STEPS, head_groups
from device_model.mono3d.expert_reads import ExpertReads
from device_model.mono3d.layout import Layout
from device_model.mono3d.near_units import NearUnits
from device_model.mono3d.row_times import RowTimes
from device_model.mono3d.setup import Mono3dSetup
from device_model.mono3d.tiles import mlp_tiles, shared_tiles
from device_model.roofline import Part, Unit
from device_model.size import ModelSize
from device_model.specs.spec import GQA
from device_model.work import StepWork

Groups = tuple[tuple[Part, ...], ...]
VALUE_BYTES = 2
# Of the three GEMMs of an expert only one hides the activation (Stratum, Fig. 9), which must take a third of the time.
GEMMS = 3
HANDOVERS = 2  # of a layer: before attention, and before experts
SPLIT = "split over all banks of all chips"
PIPELINE = "one expert after the other, each split over all PUs; sums pass on while the next one is read"


class NearParts:
    """The parts of a decode step of one model."""

    def __init__(self, setup: Mono3dSetup, size: ModelSize, layout: Layout, times: RowTimes) -> None:
        self._model, self._hardware, self._calibration = setup.model, setup.hardware, setup.calibration
        self._size, self._layout, self._times = size, layout, times
        self._units = NearUnits(setup.hardware)
        self._dense_ns = times.mean_ns if layout.even else float(times.between(layout.hot_end, layout.dense_end))
        self._shared_ns = float(times.between(0.0, layout.shared_end))

    def dense(self, work: StepWork) -> Groups:
        """Weights that every token needs: projections, MLPs, shared experts and the LM head."""
        model, weights = self._model, self._size.weights
        groups = [
            self._matrices("projections", weights.attention, self._projection_tiles() * model.layers, work.tokens),
            self._matrices("LM head", weights.table, self._head_tiles(), work.logits),
        ]
        if model.dense_layers:
            tiles = mlp_tiles(model.hidden_size, model.dense_intermediate_size, self._hardware) * model.dense_layers
            groups.append(self._matrices("MLP", weights.dense, tiles, work.tokens))
        if model.shared_experts:
            width = model.shared_expert_intermediate_size or model.expert_intermediate_size
            tiles = mlp_tiles(model.hidden_size, width, self._hardware) * model.shared_experts * model.expert_layers
            unit = self._unit(weights.shared_experts, tiles, self._shared_ns)
            groups.append(self._part("shared experts", unit, SPLIT, weights.shared_experts, work.tokens))
        return tuple((part,) for part in groups)

    def experts(self, reads: ExpertReads) -> Groups:
        """Routed experts: hot ones, then cold ones. Each takes the longest of its activations, its MACs and the
        reduce-scatter of the one before it (Stratum, Fig. 9)."""
        touch = reads.touch
        hot = self._experts("hot experts", touch.hot, touch.hot_choices, reads.hot_ns)
        cold = self._experts("cold experts", touch.cold, touch.cold_choices, reads.cold_ns)
        return (*hot, *cold)

    def attention(self, work: StepWork, kv_rows: Number) -> Groups:
        """Scores and weighted values at the bandwidth of whole rows, and the softmax, hidden where it can be."""
        heads = (self._model.kv_heads if self._model.attention == GQA else 1) * work.sequences
        shared = head_groups(heads, self._hardware.pus)
        unit = self._units.kv(self._layout.kv_ns(self._times, kv_rows), shared.busy_share)
        macs = self._size.attention_macs(work)
        why = f"{shared.groups} groups of PUs with {shared.heads} heads each"
        products = Part("attention", unit, why, macs, self._size.kv_traffic_bytes(work))
        scores = macs / self._size.pair_macs * (self._model.q_heads * self._model.layers)
        softmax = Part("softmax", self._units.special_functions(), why, SOFTMAX_STEPS * scores)
        return ((products, softmax),) if shared.hides_softmax else ((products,), (softmax,))

    def exchanges(self, work: StepWork, reads: ExpertReads, xpu: Unit) -> Groups:
        """What shows of passing tokens on: the all-gathers before the first GEMM, the reduce-scatters after the last,
        and the way over the interposer and back."""
        bridge = (
            Part("bridge", self._units.bridge(), "partial sums of both dies", 0.0, link_bytes=self._bridged(work)),
        )
        groups = (
            (
                Part(
                    "ring",
                    self._units.ring(),
                    "all-gathers and reduce-scatters that show",
                    0.0,
                    0.0,
                    0.0,
                    0.0,
                    self._rung(work, reads),
                ),
            ),
            (self._handover(work, xpu),),
        )
        return (*groups, bridge) if self._hardware.dies > 1 else groups

    def wait_s(self) -> float:
        """Latencies of a step: handovers between xPU and near-memory compute, and hops from die to die."""
        times = HANDOVERS * self._model.layers
        hops = times if self._hardware.dies > 1 else 0
        return (times + 1) * self._calibration.handover_s + hops * self._calibration.bridge_s

    def _matrices(self, name: str, weights: int, tiles: int, tokens: int) -> Part:
        return self._part(name, self._unit(weights, tiles, self._dense_ns), SPLIT, weights, tokens)

    def _unit(self, weights: int, tiles: int, trc_ns: float) -> Unit:
        return self._units.weights(weights, self._model.static_bytes_per_weight, tiles, trc_ns)

    def _part(self, name: str, unit: Unit, why: str, weights: int, tokens: int) -> Part:
        return Part(name, unit, why, weights * tokens, weights * self._model.static_bytes_per_weight)

    def _experts(self, name: str, touched: float, choices: float, trc_ns: float) -> Groups:
        if not touched:
            return ()
        model, weights = self._model, self._size.weights.expert
        tiles = mlp_tiles(model.hidden_size, model.expert_intermediate_size, self._hardware)
        unit = self._units.weights(weights, model.expert_bytes_per_weight, tiles, trc_ns)
        scattered = self._passed(choices * model.hidden_size)
        part = Part(name, unit, PIPELINE, weights * choices, touched * self._size.expert_bytes, 0.0, 0.0, scattered)
        elements = GEMMS * choices * model.expert_intermediate_size
        return ((part, Part("activation", self._units.special_functions(), "beside the second GEMM", elements)),)

    def _rung(self, work: StepWork, reads: ExpertReads) -> float:
        """Bytes that a PU passes on in a step while nothing else is done. Of experts the last reduce-scatter alone
        shows, that of as many tokens as an expert has on average."""
        model, touch = self._model, reads.touch
        attention = 2 * work.tokens * model.layers
        mlp = 2 * work.tokens * model.dense_layers
        last = touch.choices / touch.touched if touch.touched else 0.0
        experts = (work.tokens + last) * model.expert_layers
        return self._passed((attention + mlp + experts + work.logits) * model.hidden_size)

    def _passed(self, values: float) -> float:
        """Bytes of so many values that a PU passes on, to all others of its chip or to who sums them up."""
        others = self._hardware.channels_per_chip - 1
        return values * VALUE_BYTES * others / self._hardware.channels_per_chip

    def _handover(self, work: StepWork, xpu: Unit) -> Part:
        """Tokens to each chip and partial sums from each, twice a layer; what the xPU reads itself, and the logits."""
        model, weights = self._model, self._size.weights
        crossings = 2 * HANDOVERS * model.layers
        tokens = crossings * self._hardware.chips * work.tokens * model.hidden_size
        logits = work.logits * model.vocab_size
        own = (weights.norms + weights.router) * model.static_bytes_per_weight
        moved = (tokens + logits) * VALUE_BYTES + own
        return Part(
            "norms, routers", xpu, "tokens go to the xPU, and back", weights.router * work.tokens, ext_bytes=moved
        )

    def _bridged(self, work: StepWork) -> float:
        """Bytes of partial sums that each die has of the other."""
        return HANDOVERS * self._model.layers * work.tokens * self._model.hidden_size * VALUE_BYTES

    def _projection_tiles(self) -> int:
        """Tiles of a layer's projections."""
        model, hardware = self._model, self._hardware
        if model.attention != GQA:
            return ceil(self._size.weights.attention / model.layers / hardware.tile_weights / hardware.pes)
        queries = model.q_heads * model.head_dim
        qkv = shared_tiles(model.hidden_size, queries + 2 * model.kv_heads * model.head_dim, hardware)
        return qkv + shared_tiles(queries, model.hidden_size, hardware)

    def _head_tiles(self) -> int:
        return shared_tiles(self._model.hidden_size, self._model.vocab_size, self._hardware)
