"""What a device sees of the other actors: their plain objects' methods, and no more waiting than there must be."""

import threading
from collections.abc import Callable
from typing import Any

import ray

from serving.cluster.streams.stream import Address, Sender
from serving.device.device_spec import DeviceSpec
from serving.device.token_buffer import TokenBuffer
from serving.types import Release

# How often a device tells the token source how far it has got.
REPORT_S = 0.1
# Releases without tokens that wait for one with some.
MAX_WAITING = 16


class Asking:
    """An actor's methods as plain calls that wait for the answer."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._actor, name)
        return lambda *args: ray.get(method.remote(*args))


class RemoteModel:
    """The device model actor as one device sees it: asked for what that device is now."""

    def __init__(self, actor: Any, spec: DeviceSpec) -> None:
        self._actor = actor
        self.spec = spec

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._actor, name)
        return lambda *args: ray.get(method.remote(self.spec, *args))


class Leasing:
    """The LPDDR tier as a device sees it: only the first lease is waited for, later ones hold once they are here.

    Of a shared tier the first one after each time of idleness is waited for too: others may have come meanwhile. `left`
    is the share of what is granted that a throttled device can draw.
    """

    def __init__(self, tier: Any, shared: bool, left: float) -> None:
        self._tier = tier
        self._shared = shared
        self._granted: float | None = None
        self._asked: Any = None
        self.left = left

    def lease(self, device: int, traffic_bytes: float, elapsed_s: float) -> float:
        if self._asked is not None and (self._granted is None or ray.wait([self._asked], timeout=0)[0]):
            self._granted = ray.get(self._asked)
        self._asked = self._tier.lease.remote(device, traffic_bytes, elapsed_s)
        if self._granted is None:
            self._granted = ray.get(self._asked)
        return self._granted * self.left

    def rate(self, device: int) -> float:
        """What is leased now."""
        assert self._granted is not None, "a step that is under way has a lease"
        return self._granted * self.left

    def release(self, device: int, traffic_bytes: float) -> None:
        self._tier.release.remote(device, traffic_bytes)
        if self._shared:
            self._granted = self._asked = None


class ReleaseSink:
    """Sends releases to the edge: the loop its steps, the feeding thread overdue tokens.

    A step without tokens travels with the next one that has some: where the token source is behind, every step comes
    without, and twice the messages would keep it there.
    """

    def __init__(self, edge: Address) -> None:
        self._sender: Sender[list[Release]] = Sender(edge)
        self._waiting: list[Release] = []
        self._lock = threading.Lock()

    def __call__(self, release: Release) -> None:
        with self._lock:
            self._waiting.append(release)
            if release.chunks or release.dropped or len(self._waiting) >= MAX_WAITING:
                self._sender.send(self._waiting)
                self._waiting = []


class ProgressReports:
    """Tells the token source how far the device has got, so that it may run on; in batches nobody waits for."""

    def __init__(self, tokens: TokenBuffer, source: Any, ahead: int) -> None:
        self._tokens = tokens
        self._source = source
        self._stride = max(1, ahead // 4)
        self._reported: dict[str, int] = {}

    def follow(self, source: Any) -> None:
        """Tell another source, which has heard nothing yet."""
        self._source, self._reported = source, {}

    def report(self) -> None:
        """Send what is new since the last report; to be called every `REPORT_S`."""
        taken = self._tokens.taken()
        self._reported = {id: self._reported.get(id, 0) for id in taken}
        news = {id: position for id, position in taken.items() if position - self._reported[id] >= self._stride}
        if news:
            self._reported.update(news)
            self._source.taken.remote(news)
