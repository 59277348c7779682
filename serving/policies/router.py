"""The router: which devices take requests, what is in flight on each, and, by its policy, where the next one goes."""

from collections.abc import Iterable

from serving.policies.routing import FleetView, RoutingPolicy
from serving.types import Request


class Router:
    """Devices by index. One is closed while it drains or is lost: nothing new goes there."""

    def __init__(self, policy: RoutingPolicy) -> None:
        self._policy = policy
        self._views: dict[int, FleetView] = {}
        self._open: set[int] = set()
        # The views of those that are open; made anew when that has changed.
        self._choice: list[FleetView] = []

    def add(self, device: int, token_s: float) -> None:
        """Let a device take requests; `token_s`: how long a token of a lone request takes there."""
        self._views[device] = FleetView(device, token_s)
        self._open.add(device)
        self._choice = []
        self.forget(device)

    def open(self, device: int) -> None:
        """Let a device take requests again."""
        self._open.add(device)
        self._choice = []

    def close(self, device: int) -> None:
        """Let a device take no more requests."""
        self._open.discard(device)
        self._choice = []

    def remove(self, device: int) -> None:
        """Forget a device that is gone: requests that it still has leave it as it goes."""
        self.close(device)
        self._views.pop(device, None)
        self.forget(device)

    def forget(self, device: int) -> None:
        """Record that a device's prefix cache is empty."""
        self._policy.forget(device)

    def set_speed(self, device: int, token_s: float) -> None:
        """Set the speed of a device that has become slower, or faster."""
        self._views[device].token_s = token_s

    def others_open(self, device: int) -> bool:
        """Tell whether any device but this one takes requests."""
        return bool(self._open - {device})

    def choose(self, request: Request, named: int | None = None) -> int:
        """Choose the device for a request, counted as in flight there from now on: the one that its client has `named`,
        if it takes requests, or the policy's choice. There must be one that is open."""
        if named in self._open:
            chosen = self._views[named]
            self._policy.note(request, chosen.index)
        else:
            self._choice = self._choice or [view for i, view in self._views.items() if i in self._open]
            chosen = self._policy.choose(request, self._choice)
        chosen.requests += 1
        chosen.tokens += request.prompt_tokens
        return chosen.index

    def done(self, ended: Iterable[tuple[int, Request]]) -> None:
        """Record that requests have left their devices, which may be gone."""
        for device, request in ended:
            if view := self._views.get(device):
                view.requests -= 1
                view.tokens -= request.prompt_tokens

    def in_flight(self, device: int) -> int:
        """Return how many requests are in flight on a device: none on one that never came up, or is gone."""
        view = self._views.get(device)
        return 0 if view is None else view.requests
