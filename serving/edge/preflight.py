"""Preflight: checks a scenario before anything is started, so that a wrong one fails within a second."""

import errno
import re
import socket
from dataclasses import dataclass, field, replace
from pathlib import Path

from serving.device.device_spec import DeviceLimits, DeviceSpec
from serving.device.fleet_limits import check_faults, context_held, load_fleet
from serving.edge.front_ends.rust_front_end import find_binary
from serving.edge.observation import ObservationOptions
from serving.recordings.answers import Answers
from serving.recordings.recording import FILE, TOKENIZERS, Recording, read
from serving.scenario.scenario import AUTO_TEXT, RUST_FRONT_END, VLLM_TEXT, Scenario, ScenarioError
from serving.security.access import Access
from serving.security.api_keys import forget
from serving.security.tls import Tls
from serving.token_model.config_file import context_of, folder_with
from serving.token_model.route_format import format_of
from serving.token_source.front_end_options import check_front_end_options
from serving.usage_error import UsageError


@dataclass(frozen=True, slots=True)
class PreparedScenario:
    """A checked scenario, without its keys: its devices, the context that all of them can hold, who is let in, the
    bound HTTP port, and what is observed."""

    scenario: Scenario
    fleet: list[tuple[DeviceSpec, DeviceLimits]]
    max_model_len: int
    access: Access
    tls: Tls | None
    sock: socket.socket
    observing: ObservationOptions = field(default_factory=ObservationOptions)
    answers: Answers | None = None
    grpc_sock: socket.socket | None = None

    def close(self) -> None:
        """Give its ports back."""
        for sock in filter(None, (self.sock, self.grpc_sock)):
            sock.close()


def prepare(scenario: Scenario) -> PreparedScenario:
    """Check a scenario, bind its HTTP port and take its keys, which child processes must not see. Raise
    UsageError and DeviceError."""
    access, tls = Access.of(scenario), Tls.of(scenario)
    fleet = load_fleet(scenario)
    context = min(context_of(scenario.token_model), context_held(scenario, fleet))
    check_faults(scenario, [spec for spec, _ in fleet], context)
    answers = answers_of(scenario)
    check_front_end(scenario.front_end)
    if scenario.vllm_options:
        check_front_end_options(scenario)
    if scenario.front_end == RUST_FRONT_END:
        check_rust_front_end(scenario, bool(access.api), tls is not None)
    grpc_sock, sock = ports_of(scenario)
    forget()
    scenario = without_keys(scenario)
    return PreparedScenario(scenario, fleet, context, access, tls, sock, answers=answers, grpc_sock=grpc_sock)


def check_front_end(address: str) -> None:
    """Raise `ScenarioError` if a front end's address is none."""
    found = re.fullmatch(r"tcp://(?:\[[0-9a-fA-F:.]+\]|[\w.-]+):([0-9]{1,5})|ipc://.+", address)
    if address not in ("", RUST_FRONT_END) and (found is None or int(found[1] or 1) not in range(1, 2**16)):
        allowed = f"{RUST_FRONT_END}, tcp://HOST:PORT, or ipc://PATH"
        raise ScenarioError(f"`front_end` is {address!r}: it must be {allowed}.", "front_end")


def check_rust_front_end(scenario: Scenario, keyed: bool, tls: bool) -> None:
    """Raise `ScenarioError` if `vllm-rs` is not there, can't have its port, or would let in who has no key."""
    find_binary()
    if keyed or tls:
        wanted = "API keys" if keyed else "TLS"
        raise ScenarioError(
            f"`front_end` is {RUST_FRONT_END!r}, which would serve whoever reaches it without foreserve's {wanted}: "
            "start vllm-rs yourself, with keys and certificates of its own, and name its address.",
            "front_end",
        )
    free_port(scenario.host, scenario.front_end_port, "front_end_port").close()


def answers_of(scenario: Scenario) -> Answers | None:
    """Return the recorded answers that a scenario may give, or None. Raise UsageError."""
    beside = Path(scenario.token_model) / FILE
    path = Path(scenario.recording) if scenario.recording else beside
    if scenario.text == VLLM_TEXT or (scenario.text == AUTO_TEXT and not scenario.recording and not beside.is_file()):
        return None
    folder = folder_with(scenario.token_model, TOKENIZERS)
    recording = read(path, folder)
    traced = scenario.residency == "trace"
    return Answers(with_routes(recording, path, scenario.token_model) if traced else recording, routed=traced)


def with_routes(recording: Recording, path: Path, token_model: str) -> Recording:
    """Return a recording with its routes in the format of the token model's. Raise UsageError if it has none of it."""
    if recording.routes is None:
        without = f"{path} has no routes: it is of a token model without experts"
        raise UsageError(f"`residency` is 'trace', and {without}.", "residency")
    form = format_of(token_model)
    if not form.fits(recording.routes):
        chosen = f"{form.routers.top_k} of {form.routers.experts} experts in each of {form.routers.layers} layers"
        sentence = f"the routes in {path} are of another model than {token_model}, whose routers choose {chosen}"
        raise UsageError(f"`residency` is 'trace', and {sentence}.", "residency")
    return replace(recording, routes=recording.routes.astype(form.kind, copy=False))


def without_keys(scenario: Scenario) -> Scenario:
    """Return the scenario without its keys and the files they are in."""
    return replace(scenario, api_keys=(), api_key_file="", admin_keys=(), admin_key_file="")


def ports_of(scenario: Scenario) -> tuple[socket.socket | None, socket.socket]:
    """Return what holds a scenario's ports of gRPC and HTTP: sockets that edges in processes of their own share, or
    one that this process listens on (None: gRPC opens its own). Raise `ScenarioError`."""
    with free_port(scenario.host, scenario.grpc_port, "grpc_port") as grpc_sock:
        sock = free_port(scenario.host, scenario.http_port, "http_port")
        return (shared(grpc_sock), shared(sock)) if scenario.edges > 1 else (None, sock)


def shared(sock: socket.socket) -> socket.socket:
    """Return a socket in the place of another one, at whose address other processes may listen."""
    host, port = sock.getsockname()[:2]
    sock.close()
    return sharing(host, port)


def sharing(host: str, port: int) -> socket.socket:
    """Return a socket bound to a port that is shared with other sockets of this user's."""
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sock.bind((host, port))
    return sock


def free_port(host: str, port: int, key: str) -> socket.socket:
    """Return a socket bound to `port`. Raise `ScenarioError` if another program has it, or the host is not this
    machine."""
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            raise ScenarioError(
                f"`host` is {host!r}, which is no address of this machine ({error.strerror}): name another with --host "
                "(127.0.0.1: for this machine alone; 0.0.0.0: for whoever reaches it).",
                "host",
            ) from error
        raise ScenarioError(
            f"`{key}` is {port}, and {host}:{port} cannot be had ({error.strerror}): "
            f"choose another with --{key.replace('_', '-')} (0: any free one).",
            key,
        ) from error
    return sock
