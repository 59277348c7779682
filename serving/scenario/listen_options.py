"""The part of a scenario that says where the server listens, and whom it lets in."""

from dataclasses import dataclass

from serving.scenario.bound_options import BoundOptions
from serving.scenario.key import key
from serving.scenario.kind import Kind
from serving.scenario.scenario_error import ScenarioError

KEYS = ("api_keys", "api_key_file", "admin_keys", "admin_key_file")
"""What says keys, or where they are: nobody's business but the server's."""


@dataclass(frozen=True, slots=True)
class ListenOptions(BoundOptions):
    """Addresses to listen on, and the keys to ask for. A `Scenario` extends it, so that each field is an option as
    well."""

    host: str = key("127.0.0.1", "address to listen on")
    http_port: int = key(
        8000,
        "port of the OpenAI HTTP API and /metrics (0: any free one)",
        least=0,
        most=65535,
        why="0: any free port",
        also=("port",),
    )
    grpc_port: int = key(50051, "port of the gRPC API (0: any free one)", least=0, most=65535, why="0: any free port")
    api_keys: tuple[str, ...] = key(
        (),
        "key that clients must show; may be given more than once. `ps` may show it: rather use a file, or "
        "FORESERVE_API_KEYS (several, with commas or spaces between them)",
        one="api_key",
        is_secret=True,
    )
    api_key_file: str = key("", "file with such keys, one a line; lines that begin with # say nothing", kind=Kind.FILE)
    admin_keys: tuple[str, ...] = key(
        (),
        "key for /foreserve/v1/devices, /faults, foreserve.v1.Admin and what of vLLM is no inference. `ps` may "
        "show it: rather use a file, or FORESERVE_ADMIN_KEY; may be given more than once",
        one="admin_key",
        is_secret=True,
    )
    admin_key_file: str = key(
        "",
        "file with such keys, one a line; without any the admin is refused, but on loopback (where an API key will do)",
        kind=Kind.FILE,
    )
    tls_cert: str = key(
        "",
        "file with the certificate to show over HTTP and gRPC, in PEM, and those up to its root; read again when "
        "it changes, as the next two are",
        kind=Kind.FILE,
    )
    tls_key: str = key("", "file with its private key, in PEM", kind=Kind.FILE)
    tls_client_ca: str = key(
        "",
        "file with those that clients' certificates must be from, in PEM (not set: clients need none)",
        kind=Kind.FILE,
    )

    @property
    def encrypted(self) -> bool:
        """Tell whether HTTP and gRPC are over TLS."""
        return bool(self.tls_cert)

    def check_listening(self) -> None:
        """Raise `ScenarioError` for what cannot be listened on."""
        for name, needed in (("tls_cert", "tls_key"), ("tls_key", "tls_cert"), ("tls_client_ca", "tls_cert")):
            if getattr(self, name) and not getattr(self, needed):
                raise ScenarioError(f"`{name}` is set, and `{needed}` is not: it takes both.", name, needed)
        if self.http_port == self.grpc_port != 0:
            raise ScenarioError(
                f"`grpc_port` is {self.grpc_port}, as `http_port` is: they must differ.", "grpc_port", "http_port"
            )
