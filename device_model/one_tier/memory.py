"""Memory of one tier that holds a whole model, and its KV cache in what is left."""

from typing import NamedTuple

from device_model.size import ModelSize
from device_model.specs.spec import DeviceError


class OneTier(NamedTuple):
    """Memory of one tier that holds everything; what is behind it is a link."""

    capacity_bytes: float
    static_bytes: float
    expert_bytes: float
    kv_bytes_per_token: float

    @property
    def kv_capacity_tokens(self) -> int:
        free = self.capacity_bytes - self.static_bytes - self.expert_bytes
        return max(0, int(free // self.kv_bytes_per_token))

    @property
    def kv_tokens_in_hb(self) -> int:
        return self.kv_capacity_tokens

    def kv_tokens_among(self, sharers: int) -> int:
        """Return the tokens of KV cache that any number of devices hold together: nothing is shared. Raise ValueError
        for fewer than 1.
        """
        if sharers < 1:
            raise ValueError(f"sharers is {sharers}; an external tier has at least 1 device")
        return self.kv_capacity_tokens

    def used(self, kv_tokens: int, drafting: bool = False) -> dict[tuple[str, str], float]:
        kv = kv_tokens * self.kv_bytes_per_token
        return {("hb", "static"): self.static_bytes, ("hb", "kv"): kv, ("hb", "experts"): self.expert_bytes}


def one_tier(size: ModelSize, capacity_bytes: float, what: str, expert_bytes: float | None = None) -> OneTier:
    """Return the memory of a model in so many bytes; `what` is its name in the error's message. `expert_bytes` are
    those that all its experts take, if these are more than they have. Raise DeviceError if the model does not fit.
    """
    experts = size.experts_bytes if expert_bytes is None else expert_bytes
    need = size.static_bytes + experts
    if need > capacity_bytes:
        raise DeviceError(
            f"The model does not fit: its weights take {need / 1e9:.1f} GB of the memory of the {what}, whose capacity "
            f"allows at most {capacity_bytes / 1e9:.1f} GB."
        )
    return OneTier(capacity_bytes, size.static_bytes, experts, size.kv_bytes_per_token)
