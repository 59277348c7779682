"""What is emulated, as a scenario names it: small enough to be sent to an actor, which loads it."""

from typing import NamedTuple

from device_model.device import RooflineDevice
from device_model.load import load_device
from serving.pricing import Trace
from serving.scenario import Scenario
from serving.speculate import Speculation


class Emulated(NamedTuple):
    """A system, its hardware and model, by the names of their files; a draft scheme (or ""), where its acceptance comes
    from, and what its cache follows if it is real."""

    system: str
    hardware: str
    model: str
    draft: str
    acceptance: str
    trace: Trace | None

    @staticmethod
    def of(scenario: Scenario) -> "Emulated":
        """What a scenario names."""
        names = (scenario.system, scenario.hardware, scenario.model)
        trace = Trace(*names, scenario.token_model) if scenario.residency == "trace" else None
        return Emulated(*names, scenario.draft, scenario.acceptance, trace)

    def load(self) -> tuple[RooflineDevice, Speculation | None]:
        """The device, and how it speculates if it does. Raises SpecError."""
        device = load_device(self.system, self.hardware, self.model, self.draft or None)
        if not self.draft:
            return device, None
        return device, Speculation(device, self.acceptance)
