"""What is emulated, as a scenario names it: small enough to be sent to an actor, which loads it."""

from typing import NamedTuple

from device_model.load import load_device
from device_model.modes import PLATFORMS
from serving.pricing import Trace
from serving.scenario import Scenario
from serving.switching import Switching
from serving.ways import Ways


class Emulated(NamedTuple):
    """A system, its hardware and model, by the names of their files; a draft scheme (or ""), where its acceptance comes
    from, when it drafts, and what its cache follows if it is real."""

    system: str
    hardware: str
    model: str
    draft: str
    acceptance: str
    switching: Switching
    trace: Trace | None

    @staticmethod
    def of(scenario: Scenario) -> "Emulated":
        """What a scenario names."""
        names = (scenario.system, scenario.hardware, scenario.model)
        trace = Trace(*names, scenario.token_model) if scenario.residency == "trace" else None
        draft = "" if trace else draft_of(scenario.system, scenario.draft)
        switching = Switching(scenario.mode, scenario.tau, scenario.depth, scenario.objective)
        return Emulated(*names, draft, scenario.acceptance, switching, trace)

    def load(self) -> Ways:
        """The device, and the ways in which it carries steps out. Raises SpecError."""
        return Ways(load_device(self.system, self.hardware, self.model, self.draft or None), self.acceptance)


def draft_of(system: str, named: str) -> str:
    """The draft scheme that a scenario names, or ("auto") that the system speculates with in its paper; "" for none."""
    if named == "auto":
        return PLATFORMS.get(system) or ""
    return "" if named == "none" else named
