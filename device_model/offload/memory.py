"""Memory of a GPU that offloads experts: static weights, KV cache and the experts that find room; all others are the
host's."""

from typing import NamedTuple

from device_model.arrays import Number, least, most
from device_model.size import ModelSize
from device_model.specs.spec import DeviceError, TierSpec


class OffloadMemory(NamedTuple):
    """The GPU's memory and the host's. The KV cache stays in the GPU's, as engines have it, and takes its room from the
    experts; at least those that one token needs of a layer must find some. The host has every expert, so that one that
    gives way need not be written back.
    """

    capacity_bytes: float  # of the GPU's memory
    static_bytes: float
    expert_bytes: float  # one expert of one layer
    experts: int  # of all layers
    top_k: int
    kv_bytes_per_token: float

    @property
    def free_bytes(self) -> float:
        """What KV cache and experts share."""
        return self.capacity_bytes - self.static_bytes

    @property
    def kv_capacity_tokens(self) -> int:
        least_bytes = self.top_k * self.expert_bytes
        return max(0, int((self.free_bytes - least_bytes) // self.kv_bytes_per_token))

    @property
    def kv_tokens_in_hb(self) -> int:
        return self.kv_capacity_tokens

    def kv_tokens_among(self, sharers: int) -> int:
        """Return the tokens of KV cache of each of the GPUs of one host, whose memory holds none. Raise ValueError for
        fewer than 1.
        """
        if sharers < 1:
            raise ValueError(f"sharers is {sharers}; an external tier has at least 1 device")
        return self.kv_capacity_tokens

    def slots(self, kv_bytes: Number) -> Number:
        """Return how many experts the GPU's memory holds beside so large a KV cache."""
        if not self.experts:
            return 0.0 * kv_bytes
        return most(least((self.free_bytes - kv_bytes) / self.expert_bytes, float(self.experts)), 0.0)

    def used(self, kv_tokens: int, drafting: bool = False) -> dict[tuple[str, str], float]:
        kv = kv_tokens * self.kv_bytes_per_token
        return {
            ("hb", "static"): self.static_bytes,
            ("hb", "kv"): kv,
            ("hb", "experts"): float(self.slots(kv)) * self.expert_bytes,
            ("ext", "experts"): self.experts * self.expert_bytes,
        }


def offload_memory(size: ModelSize, hbm: TierSpec, host: TierSpec) -> OffloadMemory:
    """Return the memory of a model on a GPU with `hbm` and its `host`. Raise DeviceError if it does not fit."""
    memory = OffloadMemory(
        hbm.capacity_bytes,
        size.static_bytes,
        size.expert_bytes,
        size.experts,
        size.top_k,
        size.kv_bytes_per_token,
    )
    least_bytes = size.static_bytes + size.top_k * size.expert_bytes
    for what, need, capacity in (
        ("weights that any token needs take", least_bytes, hbm.capacity_bytes),
        ("experts take", size.experts_bytes, host.capacity_bytes),
    ):
        if need > capacity:
            where = "GPU" if capacity is hbm.capacity_bytes else "host"
            raise DeviceError(
                f"The model does not fit: its {what} {need / 1e9:.1f} GB of the memory of the {where}, whose capacity "
                f"allows at most {capacity / 1e9:.1f} GB."
            )
    return memory
