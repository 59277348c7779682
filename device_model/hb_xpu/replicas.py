"""Replicas of activations: what tensor parallelism copies to every PE, where a hardware file has links carry it.

HB's weights are split over all PEs, so that each needs all activations (ELMoE-3D, 5.1) and has made its share of them.
How many links of 32 GB/s bring a PE the rest is not printed, and the paper says that no communication shows (5.2): as
shipped, replicas take neither time nor joules. With `activation_links` they pass while weights are read and multiplied,
and hold a part up where they take longer.
"""

from device_model.specs.kinds.hb_xpu import Hardware
from device_model.specs.spec import GQA, Model
from device_model.work import StepWork

VALUE_BYTES = 1
"""Activations have 8 bits (ELMoE-3D, 4.1)."""


class Replicas:
    """Bytes that all PEs take in of one model's activations, for what HB serves."""

    def __init__(self, model: Model, hardware: Hardware) -> None:
        others = hardware.pe_count - 1 if hardware.activation_links else 0
        self._static = others * VALUE_BYTES * _static_inputs(model)
        self._logits = others * VALUE_BYTES * model.hidden_size
        self._experts = others * VALUE_BYTES * model.top_k * model.expert_intermediate_size * model.expert_layers

    def of_static(self, work: StepWork) -> float:
        """Return the bytes of what enters projections, shared experts, dense MLPs and LM head. Experts are split, too,
        and have their first input from here."""
        return self._static * work.tokens + self._logits * work.logits

    def of_experts(self, work: StepWork) -> float:
        """Return the bytes of what enters the down projections of routed experts, if HB serves all."""
        return float(self._experts * work.tokens)


def _static_inputs(model: Model) -> int:
    """Return how many values of a token enter matrices over all layers: those that several share once."""
    if model.attention == GQA:
        attention = model.hidden_size + model.q_heads * model.head_dim
    else:
        latents = model.q_lora_rank + model.kv_lora_rank
        attention = model.hidden_size + latents + model.q_heads * model.v_head_dim
    shared = (model.shared_expert_intermediate_size or model.expert_intermediate_size) * model.shared_experts
    each = (attention + model.hidden_size) * model.layers
    return each + shared * model.expert_layers + model.dense_intermediate_size * model.dense_layers
