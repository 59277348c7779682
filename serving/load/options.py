"""The options of a load run, each declared once: its default, what it says, what is allowed."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from serving.load.address import EndpointAddress
from serving.scenario.key import DECLARED, Key, key, keys_of
from serving.scenario.kind import Kind
from serving.security.client_trust import SYSTEMS, Trust
from serving.security.header_text import fits_header
from serving.toml_table import RATE
from serving.usage_error import CommandFailed, UsageError
from serving.workload.distributions import MOST as MOST_TOKENS

DEFAULT_REQUESTS = 100
# Arrival processes that options can name, each with the standard deviation of its gaps over their mean.
KINDS = {"poisson": 1.0, "constant": 0.0}
REPLACED = ("rate_per_s", "arrivals", "input_len", "output_len", "range_ratio", "prompts")
"""The options that a workload file replaces."""
_OURS = {"n", "stream"}


class OptionError(UsageError):
    """An invalid option; the message names it and the values allowed."""


class LoadError(CommandFailed):
    """A run that cannot go on."""


@dataclass(frozen=True, slots=True)
class Slos:
    """Upper limits of a request's latencies, in seconds of the report's clock; None: no limit."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None

    def given(self) -> dict[str, float]:
        """Return the limits that are set, by name."""
        limits = {"ttft_s": self.ttft_s, "tpot_s": self.tpot_s, "e2e_s": self.e2e_s}
        return {name: limit for name, limit in limits.items() if limit is not None}


@dataclass(frozen=True)
class LoadOptions:
    """The options of a load run. Rates, durations and SLOs are on the report's clock (emulated, for an emulator).

    Raise OptionError for an invalid one.
    """

    url: str = key("http://127.0.0.1:8000", "http(s)://host:port or grpc(s)://host:port")
    endpoint: str = key("completions", "route", choices=("completions", "chat"))
    model: str | None = key(None, "model name (default: the first that the endpoint lists)")
    timeout_s: float = key(600.0, "real seconds for one request", above=0, why="and finite")
    rate_per_s: float = key(4.0, "requests per (emulated) second, or inf for all at once")
    arrivals: str = key("poisson", "gaps between requests", choices=tuple(KINDS))
    num_requests: int | None = key(
        None, f"requests to send (default: {DEFAULT_REQUESTS}, if no --duration)", kind=Kind.WHOLE, least=1
    )
    duration_s: float | None = key(
        None, "stop sending after this many seconds", kind=Kind.NUMBER, above=0, why="and finite"
    )
    max_concurrency: int | None = key(
        None, "most requests in flight; waiting counts as latency", kind=Kind.WHOLE, least=1
    )
    seed: int | None = key(
        None, "of arrivals, lengths and words (default: 0, or the workload file's)", kind=Kind.WHOLE, least=0
    )
    workload: Path | None = key(
        None, "a workload file (TOML) that says what arrives when: see serving/workload/README.md", kind=Kind.FILE
    )
    input_len: int = key(128, "about so many tokens", least=1, most=MOST_TOKENS)
    output_len: int = key(64, "tokens asked for", least=1, most=MOST_TOKENS)
    range_ratio: float = key(0.0, "lengths uniform within ±R of those", least=0, most=1, why="from 0 to 1")
    prompts: Path | None = key(None, "one prompt a line, or .jsonl with `prompt`, used in turn", kind=Kind.FILE)
    respect_eos: bool = key(False, "do not send vLLM's ignore_eos and min_tokens")
    temperature: float | None = key(None, "(default: the server's)", kind=Kind.NUMBER, least=0)
    extra_body: dict[str, Any] = field(
        default_factory=dict, metadata={DECLARED: Key("more fields for each request, a JSON object", Kind.WORD)}
    )
    metrics_url: str | None = key(None, "the emulator's /metrics (default: those of --url, over HTTP as over gRPC)")
    slos: Slos = Slos()
    told: bool = False  # Send the name (X-Request-Id) and the seed of each request of the workload.
    api_key: str | None = field(default=None, repr=False)
    trust: Trust = SYSTEMS

    def __post_init__(self) -> None:
        _ = self.address  # Raises OptionError for an invalid URL.
        for name, must, value in self._wrong():
            raise OptionError(f"{option_of(name)} must be {must}, not {value!r}.")
        if math.isinf(self.rate_per_s) and self.count is None:
            raise OptionError("--rate inf needs --num-requests: a duration alone would never be reached.")

    @property
    def count(self) -> int | None:
        """The most requests to send; None if only the duration bounds them."""
        return DEFAULT_REQUESTS if self.num_requests is None and self.duration_s is None else self.num_requests

    @property
    def address(self) -> EndpointAddress:
        """The endpoint's address. Raise OptionError if `url` is invalid."""
        try:
            return EndpointAddress.of(self.url)
        except ValueError:
            allowed = "must be http://HOST:PORT, https://, grpc:// or grpcs://"
            raise OptionError(f"--url {allowed}, not {self.url!r}.") from None

    def _wrong(self) -> Iterator[tuple[str, str, object]]:
        """Yield each option that is wrong, what it must be, and what it is."""
        for name, declared in load_keys().items():
            if must := declared.wrong(getattr(self, name)):
                yield name, must, getattr(self, name)
        for name, limit in self.slos.given().items():
            if not 0 < limit < math.inf:
                yield f"slo_{name[:-2]}_ms", "above 0", limit * 1e3
        if not (RATE.ok(self.rate_per_s) or self.rate_per_s == math.inf):
            yield "rate_per_s", f"{RATE.words}, of requests per second, or inf", self.rate_per_s
        if self.extra_body.keys() & _OURS:
            yield "extra_body", "without n and stream, as latencies are of one stream", self.extra_body
        if self.api_key and not fits_header(self.api_key):
            yield "api_key", "printable ASCII", "what was given"


def load_keys() -> dict[str, Key]:
    """Return all options that are declared as keys, by their field's name."""
    return keys_of(LoadOptions)


def option_of(name: str) -> str:
    """Return the option of the command line that sets a field: its unit of seconds is left out."""
    return "--" + re.sub(r"(_per)?_s$", "", name).replace("_", "-")
