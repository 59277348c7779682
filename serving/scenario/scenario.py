"""A scenario: what is emulated, how fast, and where it listens; a TOML file, its keys also command-line options."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from serving.nearest_name import meant
from serving.policies.placement import TOPIC
from serving.scenario.fleet_options import FleetOptions
from serving.scenario.key import key, parse_keys
from serving.scenario.scenario_error import ScenarioError as ScenarioError
from serving.scenario.slo import DEFAULT_CLASSES, SloClass, parse_classes
from serving.scheduler.config import BATCHING, FAIRNESS, PREEMPTION, PREFILL, SPILL

BUNDLED = Path(__file__).parents[1] / "bundled"
BUNDLED_MODEL = BUNDLED / "foreserve-moe"
RUST_FRONT_END = "vllm-rs"
ALL_TIERS = "all"
TOPIC_AWARE = "topic-aware"
# More tokens than any model holds, more sequences than a device has room for, and blocks longer than most prompts.
MOST_TOKENS, MOST_SEQUENCES, MOST_BLOCK_TOKENS = 2**24, 16_384, 4096
TEXTS = AUTO_TEXT, VLLM_TEXT, RECORDED_TEXT = ("auto", "vllm", "recorded")


def is_bundled(token_model: str) -> bool:
    """Tell whether a token model's folder is one of those that are bundled."""
    return Path(token_model).parent == BUNDLED


def token_model_of(name: str) -> str:
    """Return the folder of a token model that is bundled, by its name; any other as it is named."""
    return str(BUNDLED / name) if name and (BUNDLED / name).is_dir() else name


@dataclass(frozen=True, slots=True)
class Scenario(FleetOptions):
    """An emulation and how to serve it. `speed` is emulated seconds per real second. A key that is a text of its own
    (`faults`, `slo_classes`) is parsed once, into a field beside it (`fault_specs`, `slo`)."""

    speed: float = key(
        1.0,
        "emulated seconds per real second: 1 is real time, 0.1 ten times slower",
        above=0,
        least=1e-6,
        most=1e6,
        why="1 is real time, 0.1 ten times slower",
        unit="emulated seconds per real second",
    )
    token_model: str = key(
        str(BUNDLED_MODEL),
        "model that makes the text: foreserve-moe or foreserve-tiny, which are bundled, or one in Hugging Face "
        "format, a folder or a repository's name",
        shown=BUNDLED_MODEL.name,
    )
    token_ahead: int = key(128, "tokens that vLLM may be ahead of a device, per request", least=1, unit="tokens")
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
        unit="sources",
    )
    standby_sources: int = key(
        0,
        "token sources that stand by to take over when one dies; each takes some 300 MB (600 on a Ray of your own)",
        least=0,
        most=64,
        unit="sources",
    )
    edges: int = key(
        1,
        "processes that answer HTTP and gRPC, each connection by one of them; beyond 1 they are processes of their "
        "own, and this one keeps to admission, devices and metrics",
        least=1,
        most=64,
        unit="processes",
    )
    front_end: str = key(
        "",
        "vLLM's front end beside foreserve's own edge: vllm-rs, its own in Rust, or the address at which one of yours "
        "waits for an engine, as tcp://HOST:PORT or ipc://PATH (empty: none); it takes the emulated devices for one",
    )
    vllm_options: tuple[str, ...] = key(
        (),
        "options of vLLM's own front end, as '--tool-call-parser=hermes': tools, templates, names, log probabilities, "
        "CORS; on the command line rather after a -- of their own",
        one="vllm_option",
    )
    front_end_port: int = key(8100, "HTTP port of vllm-rs, if that is the front end", least=1, most=65535)
    max_model_len: int = key(
        32768,
        "longest context in tokens, if the models and the device can hold it",
        least=1,
        most=MOST_TOKENS,
        unit="tokens",
    )
    max_num_seqs: int = key(64, "most sequences in a device's batch", least=1, most=MOST_SEQUENCES, unit="sequences")
    max_num_batched_tokens: int = key(
        8192, "most tokens in one step of a device", least=1, most=MOST_TOKENS, unit="tokens"
    )
    max_queue: int = key(
        1024, "most unfinished requests before clients are told to come back later", least=1, unit="requests"
    )
    batching: str = key(
        "fcfs",
        "who begins next: fcfs, priority, slo-aware (earliest deadline), topic-aware (one topic at a time)",
        choices=BATCHING,
    )
    patience_s: float = key(
        10.0,
        "emulated seconds for which a request may be passed over, if its deadline isn't sooner (slo-aware: once it is "
        "late)",
        least=0,
        unit="emulated seconds",
    )
    topic_hold_s: float = key(
        0.0,
        "emulated seconds for which topic-aware batching may hold back another topic though there is room",
        least=0,
        unit="emulated seconds",
    )
    prefill: str = key(
        "mixed",
        "prompts: mixed with decoding in chunks, prefill-first, or decode-first (when nothing decodes)",
        choices=PREFILL,
    )
    prefill_chunk: int = key(
        0,
        "most prompt tokens in one step (0: as many as max_num_batched_tokens leaves)",
        least=0,
        most=MOST_TOKENS,
        unit="tokens",
    )
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
        "may be left out; may be given more than once, and replaces the default classes (none: no classes)",
        one="slo_class",
        parse=partial(parse_classes, what="`slo_classes`"),
        into="slo",
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
        unit="requests per emulated minute",
    )
    key_tokens_per_min: int = key(
        0,
        "the same of tokens: the prompt's and max_tokens, less what is not generated in the end; without "
        "max_tokens a request is charged the rest of the context",
        least=0,
        why="0: no limit",
        unit="tokens per emulated minute",
    )
    prefix_caching: bool = key(True, "let requests share the KV cache of what their prompts begin with")
    block_tokens: int = key(
        16,
        "tokens in a block of the KV cache, whole ones of which prompts share",
        least=1,
        most=MOST_BLOCK_TOKENS,
        unit="tokens",
    )
    slo: Mapping[str, SloClass] = field(init=False, repr=False, compare=False)
    """The SLO classes by name."""

    def __post_init__(self) -> None:
        parse_keys(self)
        self.parse_fleet()
        self.check_fleet()
        self._check_admission()
        self.check_listening()
        object.__setattr__(self, "token_model", token_model_of(self.token_model))

    def _check_admission(self) -> None:
        if self.topic_hold_s and self.batching != TOPIC_AWARE:
            raise ScenarioError(
                f"`topic_hold_s` is {self.topic_hold_s:g} and `batching` is {self.batching!r}: only "
                "topic-aware batching holds a topic back.",
                "topic_hold_s",
                "batching",
            )
        if self.preemption == SPILL and self.kv_tier == ALL_TIERS:
            raise ScenarioError(
                "`preemption` is 'spill' and `kv_tier` is 'all': there is nowhere to spill to; with `kv_tier` 'fast' "
                "the KV cache of what runs lies in the fast tier, and the slow one has room.",
                "preemption",
                "kv_tier",
            )
        if self.default_slo not in ("", *self.slo):
            classes = f"one of {', '.join(self.slo)}, or " if self.slo else ""
            raise ScenarioError(
                f"`default_slo` is {self.default_slo!r}: it must be {classes}empty (no targets)"
                f"{meant(self.default_slo, self.slo)}.",
                "default_slo",
            )

    @property
    def asks_topics(self) -> bool:
        """Tell whether any policy wants to know what requests are about."""
        return self.batching == TOPIC_AWARE or self.placement == TOPIC or self.router_spec.asks_topics

    def with_options(self, options: dict[str, Any]) -> "Scenario":
        """Return this scenario, overridden by the `options` that are given (not None)."""
        return dataclasses.replace(self, **{key: value for key, value in options.items() if value is not None})
