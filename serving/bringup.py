"""What is known before anything is started: a wrong scenario fails here, within a second."""

import errno
import socket
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from device_model.spec import SpecError
from serving.access import Access
from serving.emulated import Emulated, Figures, check_shared
from serving.faults import LOST, parse_fault
from serving.fleet import FleetError
from serving.keys import forget
from serving.observing.options import Observing
from serving.scenario import Scenario, ScenarioError
from serving.terms import TermError
from serving.tls import Tls
from serving.traced import check_trace
from serving.vllm_flags import context_of


@dataclass(slots=True)
class Bringup:
    """A scenario that can be: its devices, the context that all of them can hold, who is let in (the keys themselves
    are in it no more), and the HTTP port, taken; and what is to be seen of it."""

    scenario: Scenario
    fleet: list[tuple[Emulated, Figures]]
    max_model_len: int
    access: Access
    tls: Tls | None
    sock: socket.socket
    observing: Observing = field(default_factory=Observing)


def prepare(scenario: Scenario) -> Bringup:
    """Check a scenario, take its HTTP port and its keys, which no process that we start is to have; raises
    `ScenarioError`."""
    access, tls = Access.of(scenario), Tls.of(scenario)
    try:
        fleet = load_fleet(scenario)
        context = min(context_of(scenario.token_model), context_held(scenario, fleet))
        check_faults(scenario, [emulated for emulated, _ in fleet])
    except (SpecError, FleetError, TermError) as error:
        raise ScenarioError(str(error)) from error
    free_port(scenario.host, scenario.grpc_port, "grpc_port").close()
    sock = free_port(scenario.host, scenario.http_port, "http_port")
    forget()
    return Bringup(without_keys(scenario), fleet, context, access, tls, sock)


def without_keys(scenario: Scenario) -> Scenario:
    """The same, with no key, nor where one is."""
    return replace(scenario, api_keys=(), api_key_file="", admin_keys=(), admin_key_file="")


def context_held(scenario: Scenario, fleet: Iterable[tuple[Emulated, Figures]]) -> int:
    """How many tokens a request may have, prompt and output, on any device."""
    held = (min(figures.max_context_tokens, figures.kv_capacity_tokens) for _, figures in fleet)
    return min(scenario.max_model_len, *held)


def load_fleet(scenario: Scenario) -> list[tuple[Emulated, Figures]]:
    """What each device is, and what is to be known of it. Raises SpecError, or FleetError."""
    known: dict[Emulated, Figures] = {}
    fleet = [Emulated.of(scenario, member) for member in scenario.members]
    for emulated in fleet:
        if emulated not in known:
            ways = emulated.load()
            emulated.switching.modes(ways)
            known[emulated] = emulated.figures(ways)
            if emulated.trace is not None:
                check_trace(emulated.trace)
    check_shared([known[emulated].ext_bytes_per_s for emulated in fleet], scenario.shared_ext)
    return [(emulated, known[emulated]) for emulated in fleet]


def check_faults(scenario: Scenario, fleet: list[Emulated]) -> None:
    """Raises TermError, SpecError or FleetError for faults that could never come."""
    for text in scenario.faults:
        fault = parse_fault(text, "An entry of `faults`")
        if fault.device is not None and fault.device >= len(fleet):
            raise FleetError(f"An entry of `faults`, {text!r}, names device {fault.device}; there are {len(fleet)}.")
        if fault.kind == LOST and len(fleet) == 1:
            raise FleetError(f"An entry of `faults`, {text!r}, would leave no device: it needs at least 2.")
        for emulated in set(fleet if fault.device is None else fleet[fault.device : fault.device + 1]):
            emulated.in_condition(fault.condition).load()


def free_port(host: str, port: int, key: str) -> socket.socket:
    """A socket bound to a port; raises `ScenarioError` if another program has it, or the host is not this machine."""
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            raise ScenarioError(
                f"`host` is {host!r}, which is no address of this machine ({error.strerror}): name another with --host "
                "(127.0.0.1: for this machine alone; 0.0.0.0: for whoever reaches it)."
            ) from error
        raise ScenarioError(
            f"`{key}` is {port}, and {host}:{port} cannot be had ({error.strerror}): "
            f"choose another with --{key.replace('_', '-')} (0: any free one)."
        ) from error
    return sock
