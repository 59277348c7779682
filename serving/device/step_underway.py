"""A step under way, repriced at each change of the device's condition: the part done keeps its cost."""

from device_model.step import StepCost
from serving.device.pricing import StepPrice


class StepUnderway:
    """A step that began at `start_s`. Changes affect only the part of it that is left."""

    def __init__(self, start_s: float, priced: StepPrice) -> None:
        self._start_s, self._priced = start_s, priced
        # Since the last change: when that was, the share of the step that was left, and what a whole step costs.
        self._at_s, self._left, self._cost = start_s, 1.0, priced.cost
        self._done: StepCost | None = None

    @property
    def end_s(self) -> float:
        """The instant at which the step ends if the condition does not change again."""
        return self._at_s + self._left * self._cost.latency_s

    def reprice(self, at_s: float, cost: StepCost) -> None:
        """From `at_s` on, charge the rest of the step at the pace of `cost`, the price of a whole step in the new
        condition without transfers between the tiers."""
        first, moved_s = self._priced.cost.latency_s, self._priced.moved_s
        share = min(self._left, max(0.0, (at_s - self._at_s) / self._cost.latency_s))
        part = self._cost.times(share)
        self._done = part if self._done is None else self._done.plus(part)
        self._at_s, self._left = self._at_s + share * self._cost.latency_s, self._left - share
        self._cost = _after_moves(cost, first / (first - moved_s))

    @property
    def priced(self) -> StepPrice:
        """The whole step's price: its parts' energy and seconds added up, its traffic and lookups counted once."""
        if self._done is None:
            return self._priced
        latency_s = self.end_s - self._start_s
        cost, first = self._done.plus(self._cost.times(self._left)), self._priced.cost
        # What it reads and moves it does once, at whatever pace.
        cost = cost._replace(
            latency_s=latency_s,
            traffic=first.traffic,
            expert_lookups=first.expert_lookups,
            expert_hits=first.expert_hits,
            hits_beyond_hb=first.hits_beyond_hb,
            unpublished=first.unpublished,
        )
        return self._priced.at(cost)


def _after_moves(cost: StepCost, times: float) -> StepCost:
    """Return the cost of a step that takes so many times as long by what is moved before it, which takes longer as the
    step does: in the target's part, as no draft has begun by then."""
    whole = cost.times(times)
    seconds, energy = cost.seconds, cost.stage_energy
    return whole._replace(
        seconds=seconds._replace(target_s=seconds.target_s + whole.latency_s - cost.latency_s),
        stage_energy=energy._replace(target_j=energy.target_j + whole.energy_j - cost.energy_j),
    )
