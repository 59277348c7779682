"""A scenario: what is emulated, how fast, and where it listens; a TOML file, its keys also command-line options."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from device_model.load import places_experts
from device_model.specs.hardware_file import OWN, system_of
from serving.key_values import TermError
from serving.policies.modes import OBJECTIVES
from serving.policies.modes import POLICIES as MODES
from serving.policies.placement import LRU, OWN_SWAP, PLACEMENTS, SWAPS, TOPIC
from serving.policies.routing import LEAST_LOADED, TOPICAL, make_policy
from serving.policies.step_options import ACCEPTANCES
from serving.scenario.fleet import MOST_DEVICES, PLAIN_OR_AUTO, FleetError, Member, draft_of, parse_entry
from serving.scenario.key import check_keys, key
from serving.scenario.listen_options import ListenOptions
from serving.scenario.scenario_error import ScenarioError as ScenarioError
from serving.scenario.slo import DEFAULT_CLASSES, parse_classes
from serving.scheduler.config import BATCHING, FAIRNESS, PREEMPTION, PREFILL, SPILL

BUNDLED = Path(__file__).parents[1] / "bundled"
BUNDLED_MODEL = BUNDLED / "foreserve-moe"
RUST_FRONT_END = "vllm-rs"
ALL_TIERS = "all"
TEXTS = AUTO_TEXT, VLLM_TEXT, RECORDED_TEXT = ("auto", "vllm", "recorded")


@dataclass(frozen=True, slots=True)
class Scenario(ListenOptions):
    """An emulation and how to serve it. `speed` is emulated seconds per real second."""

    system: str = key(
        OWN, "kind of system to emulate, a file in device_model/systems; auto: the one that the hardware's file names"
    )
    hardware: str = key("elmoe3d-8gb", "its hardware, a file in device_model/specs/hardware")
    model: str = key("qwen3-30b-a3b", "the model it serves, a file in device_model/specs/models")
    draft: str = key(
        "auto", "draft scheme, a file in device_model/drafts; auto: what the system has in its paper; none"
    )
    mode: str = key(
        "tau",
        "AR or SD: fixed-ar, fixed-sd, tau (SD from a batch of tau on), cost (what the device model finds better)",
        choices=MODES,
    )
    tau: int = key(0, "smallest batch that speculates (0: from which on it is faster, by the device model)", least=0)
    depth: str = key("", "tokens that a draft looks ahead: a number, or auto, by cost (not set: as calibrated)")
    objective: str = key(
        "speed", "what is chosen by cost: speed (tokens per second) or energy (tokens per joule)", choices=OBJECTIVES
    )
    acceptance: str = key(
        "published",
        "rates of accepted drafts: published (the paper's), or measured (on the bundled token model)",
        choices=ACCEPTANCES,
    )
    residency: str = key(
        "analytic",
        "what HB holds of the experts: analytic (as a law expects), or trace (a real cache, real routes; on Stratum "
        "real routes, to where each expert lies)",
        choices=("analytic", "trace"),
    )
    placement: str = key(
        "lru",
        "experts in HB, or in the fast rows of Stratum: lru (used last; there hot ones as published), hot (used most "
        "by all topics), topic (by those of the batch)",
        choices=PLACEMENTS,
    )
    swap: str = key(
        OWN_SWAP,
        "when topics have experts placed anew: always (for each batch of another mix), pays (if it saves more time "
        "than it takes), or auto (as the system does: always on Stratum, else pays)",
        choices=SWAPS,
    )
    devices: int = key(1, "emulated devices", least=1, most=MOST_DEVICES)
    fleet: tuple[str, ...] = key(
        (),
        "devices that differ, each entry as [COUNT x ][SYSTEM/]HARDWARE[+DRAFT], for example '2 x elmoe3d-4gb'; "
        "may be given more than once",
        one="device",
    )
    router: str = key(
        LEAST_LOADED,
        "how requests find a device: round-robin, least-loaded, topic-affine, prefix-affine, or score, which may "
        "have weights ('score: load=1, topic=0.5, prefix=1')",
    )
    shared_ext: int = key(
        1,
        "devices that share one slow tier (ELMoE-3D's LPDDR), its bandwidth and its capacity (1: each has its own)",
        least=1,
    )
    faults: tuple[str, ...] = key(
        (),
        "what breaks, and when, for example 'slow: left=0.4, device=0, at=10, for=30' (kinds: slow, fast: the memory "
        "tiers, of ELMoE-3D also lpddr, hb; clock, stall, lost); may be given more than once",
        one="fault",
    )
    seed: int = key(0, "what is left to chance in faults follows from it")
    speed: float = key(
        1.0,
        "emulated seconds per real second: 1 is real time, 0.1 ten times slower",
        above=0,
        why="1 is real time, 0.1 ten times slower",
    )
    token_model: str = key(
        str(BUNDLED_MODEL),
        "model that makes the text: foreserve-moe or foreserve-tiny, which are bundled, or one in Hugging Face "
        "format, a folder or a repository's name",
    )
    token_ahead: int = key(128, "tokens that vLLM may be ahead of a device, per request", least=1)
    text: str = key(
        AUTO_TEXT,
        "where text comes from: vllm (each token is made now), recorded (real answers that it made before), or auto "
        "(vllm while it keeps up; who comes when it does not gets a recorded answer)",
        choices=TEXTS,
    )
    recording: str = key(
        "", "file of recorded text, as `foreserve record` makes it (empty: recording.npz beside the token model)"
    )
    token_sources: int = key(
        0,
        "token sources, each a vLLM of its own, among which requests are shared out (0: as many as help, one at "
        "least; one a GPU where there are GPUs)",
        least=0,
        most=64,
    )
    standby_sources: int = key(
        0,
        "token sources that stand by to take over when one dies; each takes some 300 MB (600 on a Ray of your own)",
        least=0,
    )
    edges: int = key(
        1,
        "processes that answer HTTP and gRPC, each connection by one of them; beyond 1 they are processes of their "
        "own, and this one keeps to admission, devices and metrics",
        least=1,
        most=64,
    )
    front_end: str = key(
        "",
        "vLLM's front end beside foreserve's own edge: vllm-rs, its own in Rust, or the address at which one of yours "
        "waits for an engine, as tcp://HOST:PORT (empty: none); it takes the emulated devices for one",
    )
    front_end_port: int = key(8100, "HTTP port of vllm-rs, if that is the front end", least=1, most=65535)
    max_model_len: int = key(32768, "longest context in tokens, if the models and the device can hold it", least=1)
    max_num_seqs: int = key(64, "most sequences in a device's batch", least=1)
    max_num_batched_tokens: int = key(8192, "most tokens in one step of a device", least=1)
    max_queue: int = key(1024, "most unfinished requests before clients are told to come back later", least=1)
    batching: str = key(
        "fcfs",
        "who begins next: fcfs, priority, slo-aware (earliest deadline), topic-aware (one topic at a time)",
        choices=BATCHING,
    )
    patience_s: float = key(10.0, "emulated seconds for which a request without a deadline may be passed over", least=0)
    topic_hold_s: float = key(
        0.0, "emulated seconds for which topic-aware batching may hold back another topic though there is room", least=0
    )
    prefill: str = key(
        "mixed",
        "prompts: mixed with decoding in chunks, prefill-first, or decode-first (when nothing decodes)",
        choices=PREFILL,
    )
    prefill_chunk: int = key(0, "most prompt tokens in one step (0: as many as max_num_batched_tokens leaves)", least=0)
    preemption: str = key(
        "recompute", "KV cache of what is preempted: recompute it, or spill it to the slow tier", choices=PREEMPTION
    )
    kv_tier: str = key(
        ALL_TIERS,
        "where the KV cache of what runs may lie: all tiers, or the fast one only (hb: the same, of ELMoE-3D)",
        choices=(ALL_TIERS, "fast", "hb"),
    )
    fairness: str = key(
        "none", "between API keys: none, or by tokens (who was served least goes first)", choices=FAIRNESS
    )
    slo_classes: tuple[str, ...] = key(
        DEFAULT_CLASSES,
        "SLO class that requests may name, as in 'chat: ttft_ms=500, tpot_ms=50, priority=0', of which each term "
        "may be left out; may be given more than once, and replaces the default classes",
        one="slo_class",
    )
    default_slo: str = key("", "SLO class of requests that name none (empty: no targets)")
    early_rejection: bool = key(
        True, "turn a request away (429) if its first token is predicted to come later than its TTFT target"
    )
    key_requests_per_min: int = key(
        0,
        "requests that each API key may make in an emulated minute, all of them at once if it likes (0: no "
        "limit); without API keys, of all clients together",
        least=0,
        why="0: no limit",
    )
    key_tokens_per_min: int = key(
        0,
        "the same of tokens: the prompt's and max_tokens, less what is not generated in the end; requests have to "
        "say max_tokens, which is the rest of the context otherwise",
        least=0,
        why="0: no limit",
    )
    prefix_caching: bool = key(True, "let requests share the KV cache of what their prompts begin with")
    block_tokens: int = key(16, "tokens in a block of the KV cache, whole ones of which prompts share", least=1)

    def __post_init__(self) -> None:
        check_keys(self)
        self._check_choices()
        self._check_admission()
        self._check_fleet()
        self.check_listening()
        if self.token_model and (BUNDLED / self.token_model).is_dir():
            object.__setattr__(self, "token_model", str(BUNDLED / self.token_model))

    def _check_choices(self) -> None:
        try:
            drafting = any(member.draft for member in self.members)
        except FleetError as error:
            raise ScenarioError(str(error)) from error
        for wrong, sentence in self._contradictions(drafting):
            if wrong:
                raise ScenarioError(sentence)

    def _contradictions(self, drafting: bool) -> list[tuple[bool, str]]:
        """Return a sentence for each contradiction between keys, and whether it holds here."""
        traced, mixes = self.residency == "trace", self.placement != LRU
        return [
            (
                traced and mixes and not all(places_experts(member.system) for member in self.members),
                f"`residency` is 'trace' and `placement` is {self.placement!r}: a trace is cached by LRU, except on "
                "Stratum, whose experts have places of their own.",
            ),
            (
                self.swap != OWN_SWAP and self.placement != TOPIC,
                f"`swap` is {self.swap!r} and `placement` is {self.placement!r}: only experts that follow topics "
                "(`placement` 'topic') are placed anew.",
            ),
            (
                self.acceptance != "published" and not drafting,
                "`acceptance` is set, and nothing drafts (`draft`): only drafts are accepted.",
            ),
            (
                self.preemption == SPILL and self.kv_tier == ALL_TIERS,
                "`preemption` is 'spill' and `kv_tier` is 'all': there is nowhere to spill to; with `kv_tier` 'fast' "
                "the KV cache of what runs lies in the fast tier, and the slow one has room.",
            ),
        ]

    def _check_admission(self) -> None:
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
        """Tell whether any policy wants to know what requests are about."""
        by_topic = (self.batching == "topic-aware", self.placement == TOPIC, self.router.partition(":")[0] in TOPICAL)
        return any(by_topic)

    @property
    def members(self) -> list[Member]:
        """Return the spec of each device."""
        if not self.fleet:
            return [self._made(Member(self.system, self.hardware, self.draft), "The device")] * self.devices
        try:
            return [member for entry in self.fleet for member in self.members_of(entry, "An entry of `fleet`")]
        except FleetError as error:
            raise ScenarioError(str(error)) from error

    def members_of(self, entry: str, what: str) -> list[Member]:
        """Return the devices that a fleet entry stands for. Raise `FleetError`, which begins with `what`."""
        default = Member(self.system, self.hardware, self.draft)
        return [self._made(member, what) for member in parse_entry(entry, default, what)]

    def _made(self, member: Member, what: str) -> Member:
        """Return a device as it is written, with the system and the draft that it has."""
        traced = self.residency == "trace"
        if traced and member.draft not in PLAIN_OR_AUTO:
            raise FleetError(
                f"{what} drafts with {member.draft!r}, and `residency` is 'trace': a traced cache follows plain "
                "decoding only."
            )
        member = member._replace(system=system_of(member.system, member.hardware))
        return member._replace(draft=draft_of(member, traced))

    def with_options(self, options: dict[str, Any]) -> "Scenario":
        """Return this scenario, overridden by the `options` that are given (not None)."""
        return dataclasses.replace(self, **{key: value for key, value in options.items() if value is not None})
