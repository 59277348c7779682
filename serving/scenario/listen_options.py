"""The part of a scenario that says where the server listens, and whom it lets in."""

from dataclasses import dataclass, field

from serving.scenario.bound_options import BoundOptions
from serving.scenario.scenario_error import ScenarioError

KEYS = ("api_keys", "api_key_file", "admin_keys", "admin_key_file")
"""What says keys, or where they are: nobody's business but the server's."""


@dataclass(frozen=True, slots=True)
class ListenOptions(BoundOptions):
    """Where to listen, and the keys to ask for. A `Scenario` extends it, so that each field is an option as well."""

    host: str = "127.0.0.1"
    http_port: int = 8000
    grpc_port: int = 50051
    api_keys: tuple[str, ...] = field(default=(), repr=False)
    api_key_file: str = ""
    admin_keys: tuple[str, ...] = field(default=(), repr=False)
    admin_key_file: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    tls_client_ca: str = ""

    @property
    def encrypted(self) -> bool:
        """Whether HTTP and gRPC are over TLS."""
        return bool(self.tls_cert)

    def check_listening(self) -> None:
        """Raise `ScenarioError` for what cannot be listened on."""
        self.check_bounds()
        for name in ("http_port", "grpc_port"):
            if not 0 <= getattr(self, name) <= 65535:
                raise ScenarioError(f"`{name}` is {getattr(self, name)}: it must lie in 0 to 65535 (0: any free port).")
        for name, needed in (("tls_cert", "tls_key"), ("tls_key", "tls_cert"), ("tls_client_ca", "tls_cert")):
            if getattr(self, name) and not getattr(self, needed):
                raise ScenarioError(f"`{name}` is set, and `{needed}` is not: it takes both.")
        if self.http_port == self.grpc_port != 0:
            raise ScenarioError(f"`grpc_port` is {self.grpc_port}, as `http_port` is: they must differ.")
