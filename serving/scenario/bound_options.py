"""The part of a scenario that says how much of the server one client may take."""

from dataclasses import dataclass

from serving.scenario.scenario_error import ScenarioError


@dataclass(frozen=True, slots=True)
class BoundOptions:
    """Bounds of what clients send, and of how long they may take over it. `ListenOptions` extends it."""

    max_request_bytes: int = 2 << 20
    max_connections: int = 4096
    request_timeout_s: float = 30.0
    stall_timeout_s: float = 30.0

    def check_bounds(self) -> None:
        """Raise `ScenarioError` for bounds that let nothing in."""
        if self.max_request_bytes < 1024:
            raise ScenarioError(f"`max_request_bytes` is {self.max_request_bytes}: it must be at least 1024.")
        if self.max_connections < 1:
            raise ScenarioError(f"`max_connections` is {self.max_connections}: it must be at least 1.")
        for name in ("request_timeout_s", "stall_timeout_s"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ScenarioError(f"`{name}` is {getattr(self, name)}: it must be above 0.")
