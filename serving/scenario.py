"""A scenario: what is emulated, how fast, and where it listens; a TOML file, its keys also command-line options."""

import dataclasses
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from serving.fleet import FleetError, Member, parse_entry
from serving.policies.routing import LEAST_LOADED, make_policy
from serving.terms import TermError

CHOICES = {"residency": ("analytic", "trace"), "acceptance": ("published", "measured")}
COUNTS = (
    "devices",
    "shared_ext",
    "token_ahead",
    "max_model_len",
    "max_num_seqs",
    "max_num_batched_tokens",
    "max_queue",
)
BUNDLED = Path(__file__).parent / "bundled"
BUNDLED_MODEL = BUNDLED / "foreserve-moe"


class ScenarioError(ValueError):
    """A scenario that cannot be run; the message names the file, the line and the key."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """What to emulate and how to serve it. `speed` is emulated seconds per real second."""

    system: str = "elmoe3d"
    hardware: str = "elmoe3d-8gb"
    model: str = "qwen3-30b-a3b"
    draft: str = ""
    acceptance: str = "published"
    residency: str = "analytic"
    devices: int = 1
    fleet: tuple[str, ...] = ()
    router: str = LEAST_LOADED
    shared_ext: int = 1
    faults: tuple[str, ...] = ()
    seed: int = 0
    speed: float = 1.0
    token_model: str = str(BUNDLED_MODEL)
    token_ahead: int = 128
    max_model_len: int = 32768
    max_num_seqs: int = 64
    max_num_batched_tokens: int = 8192
    max_queue: int = 1024
    host: str = "127.0.0.1"
    http_port: int = 8000
    grpc_port: int = 50051
    api_keys: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        for name in COUNTS:
            if getattr(self, name) < 1:
                raise ScenarioError(f"`{name}` is {getattr(self, name)}: it must be a whole number of at least 1.")
        self._check_choices()
        self._check_fleet()
        if self.token_model and (BUNDLED / self.token_model).is_dir():
            object.__setattr__(self, "token_model", str(BUNDLED / self.token_model))
        if not 0 < self.speed < float("inf"):
            raise ScenarioError(f"`speed` is {self.speed}: it must be above 0 (1 is real time, 0.1 ten times slower).")
        for name in ("http_port", "grpc_port"):
            if not 0 <= getattr(self, name) <= 65535:
                raise ScenarioError(f"`{name}` is {getattr(self, name)}: it must lie in 0 to 65535 (0: any free port).")

    def _check_choices(self) -> None:
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ScenarioError(f"`{name}` is {getattr(self, name)!r}: it must be {' or '.join(allowed)}.")
        drafting = any(member.draft for member in self.members)
        if drafting and self.residency == "trace":
            raise ScenarioError(
                "`residency` is 'trace' and `draft` is set: a traced cache follows plain decoding only."
            )
        if self.acceptance != "published" and not drafting:
            raise ScenarioError("`acceptance` is set and `draft` is not: only drafts are accepted.")

    def _check_fleet(self) -> None:
        if self.fleet and self.devices not in (1, len(self.members)):
            count = f"{self.devices}, and `fleet` has {len(self.members)}"
            raise ScenarioError(f"`devices` is {count} devices: leave it out, or let them agree.")
        try:
            make_policy(self.router)
        except TermError as error:
            raise ScenarioError(str(error)) from error

    @property
    def members(self) -> list[Member]:
        """What each device is."""
        default = Member(self.system, self.hardware, self.draft)
        if not self.fleet:
            return [default] * self.devices
        try:
            return [member for entry in self.fleet for member in parse_entry(entry, default, "An entry of `fleet`")]
        except FleetError as error:
            raise ScenarioError(str(error)) from error

    def with_options(self, options: dict[str, Any]) -> "Scenario":
        """This scenario, overridden by the `options` that are given (not None)."""
        return dataclasses.replace(self, **{key: value for key, value in options.items() if value is not None})


def load_scenario(path: Path) -> Scenario:
    """The scenario in a TOML file.

    Raises `ScenarioError`, naming file, line and key, for what is not TOML, unknown, or not of the right kind.
    """
    try:
        text = path.read_text(encoding="utf-8")
        table = tomllib.loads(text)
    except OSError as error:
        raise ScenarioError(f"Cannot read the scenario {path}: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path} is not TOML: {error}.") from error
    kinds = {f.name: type(f.default) for f in dataclasses.fields(Scenario)}
    values = {}
    for key, value in table.items():
        where = f"{path}, line {_line_of(key, text)}"
        if key not in kinds:
            raise ScenarioError(f"{where}: there is no key `{key}`; allowed are {', '.join(kinds)}.")
        values[key] = _checked(value, kinds[key], f"{where}: `{key}`")
    try:
        return Scenario(**values)
    except ScenarioError as error:
        key = str(error).split("`")[1]
        raise ScenarioError(f"{path}, line {_line_of(key, text)}: {error}") from error


def _checked(value: Any, kind: type, what: str) -> Any:
    names = {str: "a string", int: "a whole number", float: "a number", tuple: "a list of strings"}
    if kind is float and type(value) is int:
        value = float(value)
    if kind is tuple and isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    if type(value) is not kind:
        raise ScenarioError(f"{what} is {value!r}: it must be {names[kind]}.")
    return value


def _line_of(key: str, text: str) -> int:
    """The line on which a top-level key is set; the first, where it is written in a way that hides it."""
    starts = (f"{key} ", f"{key}=", f"[{key}", f'"{key}"')
    return next((n for n, line in enumerate(text.splitlines(), 1) if line.lstrip().startswith(starts)), 1)
