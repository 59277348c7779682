"""What is emulated, as a scenario names it: small enough to be sent to an actor, which loads it."""

from pathlib import Path
from typing import NamedTuple

from device_model.load import know_topics, load_device
from device_model.modes import PLATFORMS
from device_model.usage import Usage, read_usage
from serving.policies.placement import LRU, Placing
from serving.pricing import Modelled, Trace
from serving.scenario import Scenario
from serving.switching import Switching
from serving.ways import Model, Ways

USAGE = "experts_by_topic.json"
"""Beside a token model's weights: how often the tokens of each topic choose each expert."""


class Emulated(NamedTuple):
    """A system, its hardware and model, by the names of their files; a draft scheme (or ""), where its acceptance comes
    from, when it drafts, how experts are placed in HB, whose routers say by topic which are used, and what its cache
    follows if it is real."""

    system: str
    hardware: str
    model: str
    draft: str
    acceptance: str
    switching: Switching
    placement: str
    token_model: str
    trace: Trace | None

    @staticmethod
    def of(scenario: Scenario) -> "Emulated":
        """What a scenario names."""
        names = (scenario.system, scenario.hardware, scenario.model)
        trace = Trace(*names, scenario.token_model) if scenario.residency == "trace" else None
        draft = "" if trace else draft_of(scenario.system, scenario.draft)
        switching = Switching(scenario.mode, scenario.tau, scenario.depth, scenario.objective)
        return Emulated(*names, draft, scenario.acceptance, switching, scenario.placement, scenario.token_model, trace)

    def load(self) -> Ways:
        """The device, and the ways in which it carries steps out. Raises SpecError."""
        device = load_device(self.system, self.hardware, self.model, self.draft or None)
        if self.placement != LRU:
            know_topics(device, self._usage())
        return Ways(device, self.acceptance)

    def pricer(self, model: Model) -> Modelled:
        """Prices what `model`, which has been loaded from this, says."""
        modes = self.switching.modes(self.load())
        return Modelled(model, modes, None if self.placement == LRU else Placing(model, self._usage(), self.placement))

    def _usage(self) -> Usage:
        return read_usage(Path(self.token_model) / USAGE)


def draft_of(system: str, named: str) -> str:
    """The draft scheme that a scenario names, or ("auto") that the system speculates with in its paper; "" for none."""
    if named == "auto":
        return PLATFORMS.get(system) or ""
    return "" if named == "none" else named
