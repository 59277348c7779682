"""What the memory of a device holds, and what room it leaves to keys and values: asked of systems of any kind."""

from typing import NamedTuple, Protocol


class Memory(Protocol):
    """How the tiers of a device are shared out."""

    @property
    def kv_bytes_per_token(self) -> float:
        """Bytes of KV cache of a token, at most."""
        ...

    @property
    def kv_capacity_tokens(self) -> int:
        """Tokens of KV cache that fit beside the weights, over all tiers."""
        ...

    @property
    def kv_tokens_in_hb(self) -> int:
        """Those of them that the fast tier takes."""
        ...

    def kv_tokens_among(self, sharers: int) -> int:
        """`kv_capacity_tokens` of each of `sharers` devices with one slow tier. ValueError for less than 1."""
        ...

    def used(self, kv_tokens: int) -> dict[tuple[str, str], float]:
        """Bytes by tier, "hb" or "ext", and by kind with so many tokens in the KV cache."""
        ...


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
        """The same for any number: nothing is shared. ValueError for less than 1."""
        if sharers < 1:
            raise ValueError(f"sharers is {sharers}; an external tier has at least 1 device")
        return self.kv_capacity_tokens

    def used(self, kv_tokens: int) -> dict[tuple[str, str], float]:
        kv = kv_tokens * self.kv_bytes_per_token
        return {("hb", "static"): self.static_bytes, ("hb", "kv"): kv, ("hb", "experts"): self.expert_bytes}
