"""The address of an endpoint: scheme, host, port and path."""

from dataclasses import dataclass
from urllib.parse import urlsplit

PORTS = {"http": 80, "https": 443, "grpc": 50051, "grpcs": 50051}


@dataclass(frozen=True, slots=True)
class EndpointAddress:
    """The parts of an endpoint's URL; `path` is the part before `/v1`."""

    scheme: str
    host: str
    port: int
    path: str

    @classmethod
    def of(cls, url: str) -> "EndpointAddress":
        """Return the address in `url`. Raise ValueError if `foreserve load` cannot call it."""
        parts = urlsplit(url)
        if parts.scheme not in PORTS or not parts.hostname or parts.port == 0:
            raise ValueError(url)
        port = parts.port or PORTS[parts.scheme]
        return cls(parts.scheme, parts.hostname, port, parts.path.rstrip("/").removesuffix("/v1"))

    @property
    def is_grpc(self) -> bool:
        """Tell whether the endpoint speaks gRPC."""
        return self.scheme in ("grpc", "grpcs")

    @property
    def netloc(self) -> str:
        """Host and port, as written in URLs and the Host header."""
        return f"{self._bracketed}:{self.port}"

    @property
    def base_url(self) -> str:
        """The URL before `/v1`."""
        return f"{self.scheme}://{self.netloc}{self.path}"

    @property
    def _bracketed(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host
