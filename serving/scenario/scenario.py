"""A scenario: what is emulated, how fast, and where it listens; a TOML file, its keys also command-line options."""

import dataclasses
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serving.key_values import TermError
from serving.policies.modes import OBJECTIVES
from serving.policies.modes import POLICIES as MODES
from serving.policies.placement import LRU, PLACEMENTS, TOPIC
from serving.policies.routing import LEAST_LOADED, TOPICAL, make_policy
from serving.policies.step_options import ACCEPTANCES
from serving.scenario.fleet import MOST_DEVICES, PLAIN_OR_AUTO, FleetError, Member, draft_of, parse_entry
from serving.scenario.listen_options import ListenOptions
from serving.scenario.scenario_error import ScenarioError as ScenarioError
from serving.scenario.slo import DEFAULT_CLASSES, parse_classes
from serving.scheduler.config import BATCHING, FAIRNESS, PREEMPTION, PREFILL, SPILL

CHOICES = {
    "residency": ("analytic", "trace"),
    "acceptance": ACCEPTANCES,
    "placement": PLACEMENTS,
    "mode": MODES,
    "objective": OBJECTIVES,
    "batching": BATCHING,
    "prefill": PREFILL,
    "preemption": PREEMPTION,
    "fairness": FAIRNESS,
    "kv_tier": ("all", "hb"),
}
COUNTS = (
    *("devices", "shared_ext", "token_ahead", "max_model_len", "max_num_seqs", "max_num_batched_tokens", "max_queue"),
    "block_tokens",
)
BUNDLED = Path(__file__).parents[1] / "bundled"
BUNDLED_MODEL = BUNDLED / "foreserve-moe"


@dataclass(frozen=True, slots=True)
class Scenario(ListenOptions):
    """What to emulate and how to serve it. `speed` is emulated seconds per real second."""

    system: str = "elmoe3d"
    hardware: str = "elmoe3d-8gb"
    model: str = "qwen3-30b-a3b"
    draft: str = "auto"
    mode: str = "tau"
    tau: int = 0
    depth: str = ""
    objective: str = "speed"
    acceptance: str = "published"
    residency: str = "analytic"
    placement: str = "lru"
    devices: int = 1
    fleet: tuple[str, ...] = ()
    router: str = LEAST_LOADED
    shared_ext: int = 1
    faults: tuple[str, ...] = ()
    seed: int = 0
    speed: float = 1.0
    token_model: str = str(BUNDLED_MODEL)
    token_ahead: int = 128
    standby_sources: int = 0
    max_model_len: int = 32768
    max_num_seqs: int = 64
    max_num_batched_tokens: int = 8192
    max_queue: int = 1024
    batching: str = "fcfs"
    patience_s: float = 10.0
    topic_hold_s: float = 0.0
    prefill: str = "mixed"
    prefill_chunk: int = 0
    preemption: str = "recompute"
    kv_tier: str = "all"
    fairness: str = "none"
    slo_classes: tuple[str, ...] = DEFAULT_CLASSES
    default_slo: str = ""
    early_rejection: bool = True
    key_requests_per_min: int = 0
    key_tokens_per_min: int = 0
    prefix_caching: bool = True
    block_tokens: int = 16

    def __post_init__(self) -> None:
        self._check_numbers()
        self._check_choices()
        self._check_admission()
        self._check_fleet()
        self.check_listening()
        if self.token_model and (BUNDLED / self.token_model).is_dir():
            object.__setattr__(self, "token_model", str(BUNDLED / self.token_model))

    def _check_numbers(self) -> None:
        for name in COUNTS:
            if getattr(self, name) < 1:
                raise ScenarioError(f"`{name}` is {getattr(self, name)}: it must be a whole number of at least 1.")
        if self.devices > MOST_DEVICES:
            raise ScenarioError(f"`devices` is {self.devices}: it must be at most {MOST_DEVICES}.")
        for name in ("tau", "standby_sources", "prefill_chunk", "patience_s", "topic_hold_s"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ScenarioError(f"`{name}` is {getattr(self, name)}: it must be at least 0.")
        if not 0 < self.speed < float("inf"):
            raise ScenarioError(f"`speed` is {self.speed}: it must be above 0 (1 is real time, 0.1 ten times slower).")

    def _check_choices(self) -> None:
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ScenarioError(f"`{name}` is {getattr(self, name)!r}: it must be {' or '.join(allowed)}.")
        try:
            drafting = any(member.draft for member in self.members)
        except FleetError as error:
            raise ScenarioError(str(error)) from error
        for wrong, sentence in self._contradictions(drafting):
            if wrong:
                raise ScenarioError(sentence)

    def _contradictions(self, drafting: bool) -> list[tuple[bool, str]]:
        """What does not go together, and whether it is so here."""
        traced, mixes = self.residency == "trace", self.placement != LRU
        return [
            (
                traced and mixes,
                f"`residency` is 'trace' and `placement` is {self.placement!r}: a trace is cached by LRU.",
            ),
            (
                self.acceptance != "published" and not drafting,
                "`acceptance` is set, and nothing drafts (`draft`): only drafts are accepted.",
            ),
            (
                self.preemption == SPILL and self.kv_tier == "all",
                "`preemption` is 'spill' and `kv_tier` is 'all': there is nowhere to spill to; with `kv_tier` 'hb' "
                "the KV cache of what runs lies in HB, and LPDDR has room.",
            ),
        ]

    def _check_admission(self) -> None:
        for name in ("key_requests_per_min", "key_tokens_per_min"):
            if getattr(self, name) < 0:
                raise ScenarioError(f"`{name}` is {getattr(self, name)}: it must be at least 0 (0: no limit).")
        try:
            classes = parse_classes(self.slo_classes, "`slo_classes`")
        except TermError as error:
            raise ScenarioError(str(error)) from error
        if self.default_slo not in ("", *classes):
            raise ScenarioError(
                f"`default_slo` is {self.default_slo!r}: it must be one of {', '.join(classes)}, or empty (no targets)."
            )

    def _check_fleet(self) -> None:
        if self.fleet and self.devices not in (1, len(self.members)):
            count = f"{self.devices}, and `fleet` has {len(self.members)}"
            raise ScenarioError(f"`devices` is {count} devices: leave it out, or let them agree.")
        try:
            make_policy(self.router)
        except TermError as error:
            raise ScenarioError(str(error)) from error

    @property
    def asks_topics(self) -> bool:
        """Whether any policy wants to know what requests are about."""
        by_topic = (self.batching == "topic-aware", self.placement == TOPIC, self.router.partition(":")[0] in TOPICAL)
        return any(by_topic)

    @property
    def members(self) -> list[Member]:
        """What each device is."""
        if not self.fleet:
            return [self._made(Member(self.system, self.hardware, self.draft), "The device")] * self.devices
        try:
            return [member for entry in self.fleet for member in self.members_of(entry, "An entry of `fleet`")]
        except FleetError as error:
            raise ScenarioError(str(error)) from error

    def members_of(self, entry: str, what: str) -> list[Member]:
        """The devices that an entry stands for, here. Raises `FleetError`, which begins with `what`."""
        default = Member(self.system, self.hardware, self.draft)
        return [self._made(member, what) for member in parse_entry(entry, default, what)]

    def _made(self, member: Member, what: str) -> Member:
        """A device as it is written, with the draft that it has."""
        traced = self.residency == "trace"
        if traced and member.draft not in PLAIN_OR_AUTO:
            raise FleetError(
                f"{what} drafts with {member.draft!r}, and `residency` is 'trace': a traced cache follows plain "
                "decoding only."
            )
        return member._replace(draft=draft_of(member, traced))

    def with_options(self, options: dict[str, Any]) -> "Scenario":
        """This scenario, overridden by the `options` that are given (not None)."""
        return dataclasses.replace(self, **{key: value for key, value in options.items() if value is not None})


def values_of(scenario: Scenario) -> dict[str, Any]:
    """Each key with its value."""
    return {each.name: getattr(scenario, each.name) for each in dataclasses.fields(scenario)}


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
    values = {key: scenario_value(key, value, f"{path}, line {_line_of(key, text)}") for key, value in table.items()}
    try:
        return Scenario(**values)
    except ScenarioError as error:
        raise located(error, path) from error


def scenario_value(key: str, value: Any, where: str) -> Any:
    """A key's value, of its kind. Raises `ScenarioError`, which begins with `where`."""
    kinds = {f.name: type(f.default) for f in dataclasses.fields(Scenario)}
    if key not in kinds:
        raise ScenarioError(f"{where}: there is no key `{key}`; allowed are {', '.join(kinds)}.")
    # Of what may be a number or a word, a number is as good as its digits.
    known = str(value) if key == "depth" and type(value) is int else value
    return _checked(known, kinds[key], f"{where}: `{key}`")


def located(error: ScenarioError, path: Path) -> ScenarioError:
    """An error with the file and the line of the key that it is about: the first that it names, if the file has it."""
    text = path.read_text(encoding="utf-8")
    # Of what has no file of that name, the kind is the key.
    named = re.findall(r"`(\w+)`|There is no (\w+)", str(error))
    keys = [key for pair in named for key in pair if key in tomllib.loads(text)]
    where = f"{path}, line {_line_of(keys[0], text)}" if keys else str(path)
    return ScenarioError(f"{where}: {error}")


def _checked(value: Any, kind: type, what: str) -> Any:
    names = {
        str: "a string",
        int: "a whole number",
        float: "a number",
        tuple: "a list of strings",
        bool: "true or false",
    }
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
