"""Hardware protocol: the questions that shared code asks of any kind of hardware; a kind is a file in `kinds/`."""

from typing import ClassVar, NamedTuple, Protocol, Self

from device_model.specs.spec import TierSpec


class TierNames(NamedTuple):
    """What the two memory tiers of a device are called in energy, traffic, metrics and reports."""

    fast: str
    slow: str

    def of(self, name: str) -> str:
        """Return what "hb" or "ext" is called here; any other name as it is."""
        return {"hb": self.fast, "ext": self.slow}.get(name, name)


class Hardware(Protocol):
    """A piece of hardware of any kind, in SI units."""

    tiers: ClassVar[TierNames]

    @property
    def kind(self) -> str:
        """The name of its file in `kinds/`, with `-` for `_`."""
        ...

    @property
    def system(self) -> str:
        """The file in `systems/` that serves models on it, unless another is asked for."""
        ...

    @property
    def fast(self) -> TierSpec:
        """The memory that computes read first; without capacity if there is none."""
        ...

    @property
    def slow(self) -> TierSpec:
        """The memory, or the link, behind it."""
        ...

    def degraded(self, ext_share: float, hb_share: float, clock_share: float) -> Self:
        """Return the same hardware with shares, above 0 and at most 1, of the slow tier's bandwidth, of the fast tier's
        banks and of the clock. Raise DeviceError for what it can't lose."""
        ...
