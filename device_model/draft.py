"""What a draft scheme is: what it keeps in HB, what one of its passes costs, and what it does to verification."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from device_model.device import DRAFT
from device_model.roofline import Part, Stage, Unit
from device_model.setup import Setup
from device_model.step import DraftShape, IntArray

if TYPE_CHECKING:
    from device_model.fidelity import Ask
    from device_model.placement import Residency
    from device_model.tiered import ExpertReads, TieredDevice
    from device_model.work import StepWork


class Draft(ABC):
    """A draft scheme of ELMoE-3D's comparison (7.1); subclasses, one a file in `drafts/`, are called `Scheme`."""

    published: str  # its name in Table 3
    weights_bytes: float = 0.0  # in HB, beside the target
    kv_bytes_per_token: float = 0.0  # of a KV cache of its own

    def __init__(self, setup: Setup) -> None:
        self.setup = setup

    @property
    @abstractmethod
    def shape(self) -> DraftShape:
        """The tree that Table 3 was calibrated with."""

    @abstractmethod
    def stage(self, device: "TieredDevice", work: "StepWork", held: "Residency", unit: Unit) -> Stage:
        """One draft pass: `work` has the tree's width of tokens for each sequence."""

    @property
    def leaves_cache(self) -> bool:
        """Whether the target's experts may be cached in what is left of HB."""
        return True

    def ask(self, device: "TieredDevice", work: "StepWork", held: "Residency", routes: IntArray | None) -> "Ask":
        """What verification asks of the expert cache."""
        return device.ask(work, held, routes)

    def verify_reads(
        self, device: "TieredDevice", work: "StepWork", held: "Residency", routes: IntArray | None
    ) -> "ExpertReads":
        """The experts that verification reads, and where it finds them."""
        return device.reads_of(device.cache.probe(self.ask(device, work, held, routes)), device.size.experts_bytes)


class SeparateDraft(Draft):
    """A draft with weights of its own, apart from the target: it runs on any system."""

    @abstractmethod
    def groups(self, work: "StepWork", unit: Unit) -> tuple[tuple[Part, ...], ...]:
        """The operators of one draft pass, with its weights in HB."""

    def stage(self, device: "TieredDevice", work: "StepWork", held: "Residency", unit: Unit) -> Stage:
        return Stage(DRAFT, 1, self.groups(work, unit))
