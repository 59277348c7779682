"""Routing policies: one class for each way to choose the device of a request, given the state of the devices.

A load is counted in requests of the fastest device: the requests in flight, and the one to come, times the device's
seconds per token over the least of any device. Affine policies follow affinity for as long as the device's load is at
most `SPILL_FACTOR` times that of the least loaded plus `SPILL_REQUESTS`; else the request spills to another.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from serving.key_values import TermError, parse_terms
from serving.nearest_name import meant
from serving.types import Request

SPILL_FACTOR = 1.5
SPILL_REQUESTS = 3.0
# Blocks of prompts that are remembered of each device: those of 128 thousand tokens, where a block is 16.
REMEMBERED_BLOCKS = 8192
# What `score` gives for each.
WEIGHTS = {"load": 1.0, "topic": 0.5, "prefix": 1.0}
# Of larger ones a sum may be infinite, or nothing else in it would count.
MOST_WEIGHT = 1e6

ROUND_ROBIN, LEAST_LOADED, TOPIC_AFFINE, PREFIX_AFFINE, SCORE = ROUTERS = (
    "round-robin",
    "least-loaded",
    "topic-affine",
    "prefix-affine",
    "score",
)
TOPICAL = (TOPIC_AFFINE, SCORE)
"""Those that ask for what a request is about."""


@dataclass(slots=True)
class FleetView:
    """A router's view of a device that takes requests: seconds per token of a lone request, and the requests in flight
    with their prompt tokens."""

    index: int
    token_s: float
    requests: int = 0
    tokens: int = 0


class RoutingPolicy(Protocol):
    """Chooses among devices, of which there is at least one; it may remember what it chose."""

    def choose(self, request: Request, devices: Sequence[FleetView]) -> FleetView: ...

    def note(self, request: Request, device: int) -> None: ...

    def forget(self, device: int) -> None: ...


def loads_of(devices: Sequence[FleetView]) -> list[float]:
    """Return the load that each device would have with one more request."""
    fastest_s = min([device.token_s for device in devices])
    return [(device.requests + 1) * device.token_s / fastest_s for device in devices]


def least_loaded(devices: Sequence[FleetView]) -> FleetView:
    """Return the device with the least load; of equals that with fewer prompt tokens, then that with the lower
    index."""
    loads = loads_of(devices)
    least = min(loads)
    equals = [device for device, load in zip(devices, loads, strict=True) if load == least]
    return min(equals, key=lambda device: (device.tokens, device.index))


def with_room(devices: Sequence[FleetView]) -> list[FleetView]:
    """Return the devices to which a request may go for the sake of affinity: the least loaded is among them."""
    loads = loads_of(devices)
    most = SPILL_FACTOR * min(loads) + SPILL_REQUESTS
    return [device for device, load in zip(devices, loads, strict=True) if load <= most]


class NoPrompts:
    """Base of policies that remember no prompts."""

    def note(self, request: Request, device: int) -> None:
        """Do nothing: no prompt is remembered."""

    def forget(self, device: int) -> None:
        """Do nothing: no prompt is remembered."""


class RoundRobin(NoPrompts):
    """Each device in turn."""

    def __init__(self) -> None:
        self._last = -1

    def choose(self, request: Request, devices: Sequence[FleetView]) -> FleetView:
        chosen = min(devices, key=lambda device: (device.index <= self._last, device.index))
        self._last = chosen.index
        return chosen


class LeastLoaded(NoPrompts):
    """The device with the least load."""

    def choose(self, request: Request, devices: Sequence[FleetView]) -> FleetView:
        return least_loaded(devices)


class TopicAffine(NoPrompts):
    """Each topic has a home, and devices have equally many of them; a topic spills to those after its home, in turn, so
    that what spills stays together too."""

    def __init__(self) -> None:
        self._homes: dict[str, int] = {}

    def choose(self, request: Request, devices: Sequence[FleetView]) -> FleetView:
        if not request.topic:
            return least_loaded(devices)
        home = self.home(request.topic, devices)
        return min(with_room(devices), key=lambda device: (device.index < home, device.index))

    def home(self, topic: str, devices: Sequence[FleetView]) -> int:
        """Return a topic's home device; it moves when that device is gone, or has, this one counted, two topics more
        than another."""
        others = [home for other, home in self._homes.items() if other != topic]
        counts = {device.index: others.count(device.index) for device in devices}
        home = self._homes.get(topic)
        if home not in counts or counts[home] > min(counts.values()):
            fewest = [device for device in devices if counts[device.index] == min(counts.values())]
            home = self._homes[topic] = least_loaded(fewest).index
        return home


class Prefixes:
    """The prompts that devices have had last, by the hashes of their blocks."""

    def __init__(self) -> None:
        self._blocks: dict[int, OrderedDict[int, None]] = {}

    def shared(self, request: Request, device: int) -> float:
        """Return the share of a request's blocks, from its first on, that a device has had."""
        known = self._blocks.get(device, OrderedDict())
        shared = next((n for n, block in enumerate(request.blocks) if block not in known), len(request.blocks))
        return shared / len(request.blocks) if request.blocks else 0.0

    def forget(self, device: int) -> None:
        """Forget what a device has had, as it has lost it."""
        self._blocks.pop(device, None)

    def note(self, request: Request, device: int) -> None:
        """Remember that a request goes to a device."""
        known = self._blocks.setdefault(device, OrderedDict())
        # Last blocks first: what is forgotten first then is the end of a prompt, without which the rest still counts.
        for block in reversed(request.blocks):
            known[block] = None
            known.move_to_end(block)
        while len(known) > REMEMBERED_BLOCKS:
            known.popitem(last=False)


class PrefixAffine:
    """The device that has had the longest part of the prompt, among those with room."""

    def __init__(self) -> None:
        self._prefixes = Prefixes()

    def choose(self, request: Request, devices: Sequence[FleetView]) -> FleetView:
        roomy = with_room(devices)
        shared = [self._prefixes.shared(request, device.index) for device in roomy]
        best = [device for device, share in zip(roomy, shared, strict=True) if share == max(shared)]
        chosen = least_loaded(best)
        self._prefixes.note(request, chosen.index)
        return chosen

    def note(self, request: Request, device: int) -> None:
        """Remember that a request goes to a device that was not chosen here."""
        self._prefixes.note(request, device)

    def forget(self, device: int) -> None:
        """Forget the prompts that a device has had."""
        self._prefixes.forget(device)


class Score:
    """The highest weighted sum of the share of the prompt that a device has had (0 to 1), of its being the topic's home
    (0 or 1), and, to its debit, of its load over the least load, either one plus `SPILL_REQUESTS`. So this ratio is at
    most 1 + (topic + prefix) / load where a request goes."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        self._weights = weights
        self._prefixes = Prefixes()
        self._topics = TopicAffine()

    def choose(self, request: Request, devices: Sequence[FleetView]) -> FleetView:
        loads = loads_of(devices)
        least = min(loads) + SPILL_REQUESTS
        home = self._topics.home(request.topic, devices) if request.topic else None
        weights = self._weights

        def score(at: int) -> tuple[float, int, int]:
            device = devices[at]
            total = weights["prefix"] * self._prefixes.shared(request, device.index)
            total += weights["topic"] * (device.index == home)
            return total - weights["load"] * (loads[at] + SPILL_REQUESTS) / least, -device.tokens, -device.index

        chosen = devices[max(range(len(devices)), key=score)]
        self._prefixes.note(request, chosen.index)
        return chosen

    def note(self, request: Request, device: int) -> None:
        """Remember that a request goes to a device that was not chosen here."""
        self._prefixes.note(request, device)

    def forget(self, device: int) -> None:
        """Forget the prompts that a device has had."""
        self._prefixes.forget(device)


WEIGHTLESS: dict[str, type[RoundRobin | LeastLoaded | TopicAffine | PrefixAffine]] = {
    ROUND_ROBIN: RoundRobin,
    LEAST_LOADED: LeastLoaded,
    TOPIC_AFFINE: TopicAffine,
    PREFIX_AFFINE: PrefixAffine,
}


class RouterSpec(NamedTuple):
    """A routing policy by name, of `ROUTERS`, with the weights of `score`."""

    name: str
    weights: Mapping[str, float] = {}

    @property
    def asks_topics(self) -> bool:
        """Tell whether the policy asks for what a request is about."""
        return self.name in TOPICAL

    def policy(self) -> RoutingPolicy:
        """Return the policy, which has seen no request yet."""
        return Score(self.weights) if self.name == SCORE else WEIGHTLESS[self.name]()


def parse_router(text: str) -> RouterSpec:
    """Return the spec of the policy called `text`; `score` may have weights: `score: load=1, topic=0.5, prefix=1`.

    Raise `TermError`.
    """
    name, _, terms = (part.strip() for part in text.partition(":"))
    if name == SCORE:
        told = parse_terms(terms, dict.fromkeys(WEIGHTS, float), f"`router` {SCORE!r}")
        weights = WEIGHTS | {name: float(weight) for name, weight in told.items()}
        for weight, value in weights.items():
            if not 0 <= value <= MOST_WEIGHT or (weight == "load" and not value):
                allowed = f"above 0 and at most {MOST_WEIGHT:,.0f}" if weight == "load" else f"0 to {MOST_WEIGHT:,.0f}"
                raise TermError(f"`router` {SCORE!r} has the weight {weight}={value}: allowed is {allowed}.")
        return RouterSpec(SCORE, weights)
    if name not in WEIGHTLESS:
        raise TermError(f"`router` is {name!r}: it must be {', '.join(ROUTERS[:-1])} or {SCORE}{meant(name, ROUTERS)}.")
    if terms:
        raise TermError(f"`router` {name!r} takes no terms, and has {terms!r}.")
    return RouterSpec(name)
