"""The figures that are fitted, or estimated. They are kept apart from published ones, each with what it was fitted on.

`foreserve calibrate` fits ELMoE-3D's: for each law at most 8 of a model and 10 of the device. Stratum and its
GPUs have three.
"""

from dataclasses import dataclass

from device_model.specs.spec import (
    BITS_PER_BYTE,
    MICRO,
    PICO,
    Contradiction,
    Count,
    Exponent,
    Flag,
    Positive,
    PositiveOrNone,
    PositiveShare,
    Share,
)

UNIFORM = "uniform"
"""The calibration of models whose locality nobody has measured."""
UNIFORM_LOCALITY = "uniform locality"


@dataclass(frozen=True, slots=True)
class Locality:
    """How a model's tokens choose among its experts; `experts.locality_laws` says what these figures mean."""

    popularity_spread: PositiveOrNone  # 0: all experts are chosen alike
    hit_exponent: Positive
    saturation_exponent: Positive  # of hits of drafts that are verified, and of prompts
    draft_exponent: Exponent
    eagle_weights_gb: Positive  # what its EAGLE head takes of HB: the paper gives no size, and public heads differ

    @property
    def eagle_bytes(self) -> float:
        return self.eagle_weights_gb * 1e9


@dataclass(frozen=True, slots=True)
class Speculation:
    """How ELMoE-3D drafts, for all models: the paper gives neither depth nor width nor verify budget."""

    draft_depth: Count  # of EAGLE-SD and SLM-SD
    quant_depth: Count
    elastic_depth: Count
    draft_width: Count  # tokens of a request in one draft pass
    elastic_width: Count
    verify_tokens: Count  # drafted tokens of a request in one verification, in which its last token is, too
    eagle_read_share: Share  # of an EAGLE head's weights: the rest is its embedding table
    least_share_of_top_k: Positive  # experts of a layer in the cache over top-k: with fewer it serves none

    def __post_init__(self) -> None:
        deepest = max(self.draft_depth, self.quant_depth, self.elastic_depth)
        if self.verify_tokens < deepest:
            raise Contradiction("verify_tokens", f"at least the largest depth, {deepest}: a path of drafts must fit")


@dataclass(frozen=True, slots=True)
class Mono3dCalibration:
    """What Stratum does not print of its placement, handovers and xPU; only `kv_share_of_free_rows` is fitted."""

    kv_share_of_free_rows: Share  # rows between hot and cold experts, of those that hold no weights
    kept_share: Share  # experts whose tier is the same under two topics beyond what chance keeps
    handover_us: PositiveOrNone  # from the xPU to near-memory compute or back, of however few bytes
    bridge_us: PositiveOrNone  # the same from one xPU die to another
    compute_share: PositiveShare  # of the xPU's peak that prefill reaches
    interposer_pj_per_bit: PositiveOrNone
    die_power_share: Share  # of its TDP that an xPU die draws while near-memory compute works
    idle_power_share: Share  # the same while nothing does

    @property
    def handover_s(self) -> float:
        return self.handover_us * MICRO

    @property
    def bridge_s(self) -> float:
        return self.bridge_us * MICRO

    @property
    def interposer_j_per_byte(self) -> float:
        return self.interposer_pj_per_bit * PICO * BITS_PER_BYTE


@dataclass(frozen=True, slots=True)
class GpuCalibration:
    """How a serving engine uses a GPU; `bandwidth_share` and `kernel_us` are fitted, kernels of a layer are counted."""

    bandwidth_share: PositiveShare  # of the memory's peak, while weights and KV are read
    kernel_us: PositiveOrNone  # what a kernel takes beyond its bytes and MACs
    attention_kernels: Count
    dense_kernels: Count  # of an MLP
    expert_kernels: Count  # of a layer's routed experts, its router included
    shared_kernels: Count  # of its shared experts
    sum_kernels: Count  # of a layer, where GPUs exchange partial sums
    compute_share: PositiveShare  # of the peak that GEMMs reach
    memory_share: PositiveShare  # of a GPU's memory that weights and KV cache may take
    graph_tokens: Count  # most tokens of a pass that a CUDA graph holds
    schedules_ahead: Flag  # whether a step is planned while the one before it runs

    @property
    def kernel_s(self) -> float:
        return self.kernel_us * MICRO
