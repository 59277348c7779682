"""The state of an emulation's parts, for its probes and its watchdog."""

from collections.abc import Iterable
from functools import partial

from serving.cluster.device_manager import Devices
from serving.cluster.node import Node, State
from serving.cluster.sources.manager import ACTOR, SourceManager
from serving.cluster.supervision.watched_part import ActorPart, WatchedPart
from serving.cluster.watchdog import Watchdog

# A device's loop waits a quarter of a second at most for the clock; else it waits for answers of other actors.
DEVICE_S = 20.0
# One step of vLLM's may be a prompt as long as the context, on a slow core.
SOURCE_S = 60.0
# One call of the device model may load a device, on a slow core; none of the others takes a second.
CALL_S = 60.0

UP, DOWN = "up", "down"


class Readiness:
    """The state of an emulation: alive (its process is worth keeping), and ready (it can serve a request now)."""

    def __init__(self, devices: Devices) -> None:
        self._devices, self._others = devices, list[WatchedPart]()
        self._sources = devices.sources
        self._lost = ""
        self.watchdog = Watchdog(self._parts, devices.observer.on_dropped)

    def watch(self, part: WatchedPart) -> None:
        """Have the watchdog watch a part that is no actor."""
        self._others.append(part)

    def lose(self, sentence: str) -> None:
        """Record that Ray, on which everything stands, is gone for good, with the reason."""
        self._lost = sentence

    @property
    def live(self) -> bool:
        """Tell whether the emulation can ever serve again."""
        return not self._lost

    @property
    def ready(self) -> bool:
        """Tell whether a request that comes now would be served: a source, the device model and a device are up."""
        states = self.watchdog.states()
        source = any(each.link.up and _may_serve(states, self._name(each)) for each in self._sources.all)
        model = _may_serve(states, "device model")
        return self.live and source and model and any(self._serves(node, states) for node in self._devices.kept)

    def parts(self) -> dict[str, str]:
        """Return the state of each part by name: `up`, `starting`, `silent` or `down`, or a device's own `State`."""
        states = self.watchdog.states() | {"ray": self._lost or UP}
        for node in self._devices.present:
            name = f"device {node.index}"
            if node.state is not State.SERVING:
                states[name] = str(node.state)
            elif not node.link.up:
                states[name] = DOWN
        for source in self._sources.all:
            if not source.link.up:
                states[self._name(source)] = DOWN
        return dict(sorted(states.items()))

    def _name(self, source: SourceManager) -> str:
        return ACTOR if len(self._sources.all) == 1 else f"{ACTOR} {source.index}"

    def _serves(self, node: Node, states: dict[str, str]) -> bool:
        parts = (f"device {node.index}", f"scheduler {node.index}", f"lpddr {node.group}")
        return node.state is State.SERVING and node.link.up and all(_may_serve(states, part) for part in parts)

    def _parts(self) -> Iterable[WatchedPart]:
        yield from self._others
        cluster, actors = self._devices.cluster, self._sources.actors
        for source in self._sources.all:
            yield ActorPart(self._name(source), source.handle, SOURCE_S, source.inquiry.expect_death)
        for number, standby in enumerate(actors.standbys):
            lose = partial(actors.lose_standby, standby)
            yield ActorPart(f"standby token source {number}", standby, SOURCE_S, on_dead=lose)
        yield ActorPart("device model", cluster.model, CALL_S)
        for node in self._devices.watched:
            yield ActorPart(f"device {node.index}", node.device, DEVICE_S, node.inquiry.expect_death)
            yield ActorPart(f"scheduler {node.index}", node.scheduler, CALL_S)
        for index, tier in cluster.tiers.items():
            yield ActorPart(f"lpddr {index}", tier, CALL_S)


def _may_serve(states: dict[str, str], part: str) -> bool:
    """Tell whether nothing is known against a part; one that was not asked yet is taken to be up."""
    return states.get(part, UP) in (UP, "starting")
