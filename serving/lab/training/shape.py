"""How large the model is."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The sizes of a Qwen3-MoE. The defaults are those of the bundled model: 6 million weights, 1.7 million a token."""

    vocabulary: int = 4096
    layers: int = 4
    hidden: int = 192
    heads: int = 3
    kv_heads: int = 1
    head_size: int = 96
    experts: int = 64
    active: int = 4
    expert_hidden: int = 32
    context: int = 32768
    theta: float = 10_000.0
    epsilon: float = 1e-6
