"""The part of a scenario that says how much of the server one client may take."""

from dataclasses import dataclass

from serving.scenario.key import key


@dataclass(frozen=True, slots=True)
class BoundOptions:
    """Bounds of what clients send, and of how long they may take over it. `ListenOptions` extends it."""

    max_request_bytes: int = key(2 << 20, "bytes of a request's body, or of a gRPC message", least=1024, unit="bytes")
    max_connections: int = key(
        4096,
        "connections of clients; beyond, who says nothing for longest has to go (at most half of the files that "
        "the system lets the server open)",
        least=1,
        unit="connections",
    )
    request_timeout_s: float = key(
        30.0,
        "real seconds that a client may take to send the headers of a request, and then its body",
        above=0,
        unit="real seconds",
    )
    stall_timeout_s: float = key(
        30.0,
        "real seconds after which a client that reads nothing of what it is sent is disconnected (its gRPC call ended)",
        above=0,
        unit="real seconds",
    )
