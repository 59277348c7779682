"""The options of a load run, from Python or the command line, and the values allowed for each."""

import argparse
import json
import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from serving.load.address import EndpointAddress
from serving.security.client_trust import SYSTEMS, Trust, trust_of
from serving.security.client_trust import add_arguments as trust_arguments
from serving.usage_error import CommandFailed, UsageError

DEFAULT_REQUESTS = 100
# Arrival processes that options can name, each with the standard deviation of its gaps over their mean.
KINDS = {"poisson": 1.0, "constant": 0.0}
_OURS = {"n", "stream"}

# Options that have the same name and value on the command line.
_SAME = (
    *("url", "endpoint", "model", "metrics_url", "arrivals", "num_requests", "max_concurrency"),
    *("input_len", "output_len", "range_ratio", "seed", "respect_eos", "temperature"),
)
# Options that a workload file replaces.
_IN_WORKLOAD = ("rate", "arrivals", "input_len", "output_len", "range_ratio", "prompts")


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

    url: str = "http://127.0.0.1:8000"
    endpoint: str = "completions"
    model: str | None = None  # None: the first that the endpoint lists.
    api_key: str | None = None
    arrivals: str = "poisson"
    rate_per_s: float = 4.0
    num_requests: int | None = None  # None with no duration either: DEFAULT_REQUESTS.
    duration_s: float | None = None
    max_concurrency: int | None = None
    input_len: int = 128
    output_len: int = 64
    range_ratio: float = 0.0
    prompts: Path | None = None
    workload: Path | None = None  # A file that says what arrives when, instead of rate, arrivals, lengths and prompts.
    seed: int | None = None  # None: the workload file's, or 0.
    respect_eos: bool = False
    temperature: float | None = None
    extra_body: dict[str, Any] = field(default_factory=dict)
    told: bool = False  # Send the name (X-Request-Id) and the seed of each request of the workload.
    timeout_s: float = 600.0  # Real seconds for one request.
    metrics_url: str | None = None
    slos: Slos = Slos()
    trust: Trust = SYSTEMS

    def __post_init__(self) -> None:
        _ = self.address  # Raises OptionError for an invalid URL.
        for name, allowed, value, ok in self._checks():
            if not ok:
                raise OptionError(f"--{name} must be {allowed}, not {value!r}.")
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

    def _checks(self) -> list[tuple[str, str, object, bool]]:
        key, extra = self.api_key or "", self.extra_body
        return [
            ("api-key", "printable ASCII", "what was given", key.isascii() and key.isprintable()),
            ("endpoint", "completions or chat", self.endpoint, self.endpoint in ("completions", "chat")),
            ("arrivals", " or ".join(KINDS), self.arrivals, self.arrivals in KINDS),
            ("rate", "above 0 requests per second, or inf", self.rate_per_s, self.rate_per_s > 0),
            ("num-requests", "at least 1", self.num_requests, _positive(self.num_requests)),
            ("duration", "above 0 seconds, and finite", self.duration_s, _positive(self.duration_s)),
            ("max-concurrency", "at least 1", self.max_concurrency, _positive(self.max_concurrency)),
            ("input-len", "at least 1", self.input_len, self.input_len >= 1),
            ("output-len", "at least 1", self.output_len, self.output_len >= 1),
            ("range-ratio", "from 0 to 1", self.range_ratio, 0 <= self.range_ratio <= 1),
            ("seed", "at least 0", self.seed, self.seed is None or self.seed >= 0),
            ("temperature", "at least 0", self.temperature, _positive(self.temperature) or self.temperature == 0),
            ("extra-body", "without n and stream, as latencies are of one stream", extra, not extra.keys() & _OURS),
            ("timeout", "above 0 seconds, and finite", self.timeout_s, _positive(self.timeout_s)),
            *(
                (f"slo-{name[:-2]}-ms", "above 0", limit * 1e3, _positive(limit))
                for name, limit in self.slos.given().items()
            ),
        ]


def _positive(value: float | None) -> bool:
    return value is None or 0 < value < math.inf


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `foreserve load` to a parser."""
    _add_endpoint(parser.add_argument_group("endpoint"))
    _add_arrivals(parser.add_argument_group("arrivals"))
    _add_workload(parser.add_argument_group("requests"))
    out = parser.add_argument_group("results")
    for name, what in (("ttft", "time to first token"), ("tpot", "time per output token"), ("e2e", "whole request")):
        out.add_argument(f"--slo-{name}-ms", type=float, metavar="MS", help=f"limit for goodput: {what}")
    out.add_argument("--metrics-url", metavar="URL", help="the emulator's /metrics (default: found from --url)")
    out.add_argument("--json", action="store_true", help="print the report as JSON on stdout")


def options_from(args: argparse.Namespace) -> LoadOptions:
    """Return the options that the command line asks for. Raise OptionError."""
    for name in _IN_WORKLOAD:
        if args.workload and getattr(args, name) is not None:
            option = "--" + name.replace("_", "-")
            raise OptionError(f"{option} cannot go with --workload, whose file says that: leave one of them out.")
    said = {name: getattr(args, name) for name in _SAME} | {
        "trust": trust_of(args),
        "api_key": args.api_key or os.environ.get("OPENAI_API_KEY"),
        "rate_per_s": args.rate,
        "duration_s": args.duration,
        "prompts": Path(args.prompts) if args.prompts else None,
        "workload": Path(args.workload) if args.workload else None,
        "extra_body": _json_object(args.extra_body),
        "timeout_s": args.timeout,
        "slos": Slos(*(_seconds(ms) for ms in (args.slo_ttft_ms, args.slo_tpot_ms, args.slo_e2e_ms))),
    }
    return LoadOptions(**{name: value for name, value in said.items() if value is not None})


def _add_endpoint(group: Any) -> None:
    add, default = group.add_argument, LoadOptions()
    add("--url", default=default.url, help="http(s)://host:port or grpc(s)://host:port (default: %(default)s)")
    add("--endpoint", default=default.endpoint, metavar="completions|chat", help="route (default: %(default)s)")
    add("--model", help="model name (default: the first that the endpoint lists)")
    add("--api-key", help="bearer token (default: OPENAI_API_KEY)")
    trust_arguments(group)
    add("--timeout", type=float, default=default.timeout_s, metavar="S", help="per request (default: %(default)s s)")


def _add_arrivals(group: Any) -> None:
    add, default = group.add_argument, LoadOptions()
    rate = f"requests per (emulated) second, or inf for all at once (default: {default.rate_per_s:g})"
    add("--rate", type=float, metavar="PER_S", help=rate)
    add("--arrivals", metavar="|".join(KINDS), help=f"(default: {default.arrivals})")
    add("--num-requests", "-n", type=int, metavar="N", help=f"(default: {DEFAULT_REQUESTS}, if no --duration)")
    add("--duration", type=float, metavar="S", help="stop sending after this many seconds")
    add("--max-concurrency", type=int, metavar="N", help="most requests in flight; waiting counts as latency")
    add("--seed", type=int, help="of arrivals, lengths and words (default: 0, or the workload file's)")


def _add_workload(group: Any) -> None:
    add, default = group.add_argument, LoadOptions()
    what = "a workload file (TOML) that says what arrives when: see serving/workload/README.md"
    add("--workload", metavar="FILE", help=what)
    add("--input-len", type=int, metavar="N", help=f"about so many tokens ({default.input_len})")
    add("--output-len", type=int, metavar="N", help=f"tokens asked for ({default.output_len})")
    add("--range-ratio", type=float, metavar="R", help="lengths uniform within ±R of those (0)")
    add("--prompts", metavar="FILE", help="one prompt a line, or .jsonl with `prompt`, used in turn")
    add("--respect-eos", action="store_true", help="do not send vLLM's ignore_eos and min_tokens")
    add("--temperature", type=float, help="(default: the server's)")
    add("--extra-body", default="{}", metavar="JSON", help="more fields for each request")


def _seconds(ms: float | None) -> float | None:
    return None if ms is None else ms / 1e3


def _json_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise OptionError(f"--extra-body must be a JSON object, not {text!r}.")
    return value
