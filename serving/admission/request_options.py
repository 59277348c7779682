"""Request options: the SLO class, targets, priority and topic that a request asks for beside its text.

Each can be given in three ways under the same name: a header (gRPC: metadata) `x-foreserve-slo`, a field `slo` of the
body (`extra_body` of the openai client), or an entry of the body's `vllm_xargs`, where vLLM takes extra arguments. A
field of the body wins over `vllm_xargs`, and that over a header; a target or priority wins over its class's.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from math import isfinite
from typing import Any

from device_model.specs.nearest_name import hint, nearest
from serving.admission_request import AdmissionRequest
from serving.call import Headers, text
from serving.nearest_name import meant
from serving.refusals import Reason, Refusal
from serving.scenario.slo import LEAST_PRIORITY, MOST_PRIORITY, SloClass

PREFIX = "x-foreserve-"
FIELDS = ("slo", "ttft_ms", "tpot_ms", "priority", "topic")
Said = dict[str, tuple[str, Any]]


class InvalidOption(Exception):
    """An invalid request option: `field` is the body's field, or the header."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(f"`{field}` {sentence}")
        self.field = field

    @property
    def refusal(self) -> Refusal:
        """The refusal of the request that it was found in."""
        return Refusal(Reason.INVALID, str(self), field=self.field)


class OptionReader:
    """Reads the options of requests, given the SLO classes and topics."""

    def __init__(self, classes: Mapping[str, SloClass], default: str, topics: Collection[str]) -> None:
        """`default` is the class of requests that name none; "" for none."""
        self._classes = {"": SloClass("")} | dict(classes)
        self._default = default
        self._topics = topics

    def read(
        self, asked: AdmissionRequest, headers: Headers, extra_args: Mapping[str, Any], body: Mapping[str, Any]
    ) -> AdmissionRequest:
        """Return `asked` with its options; its class fills in what they leave out, and `slo` and `topic` are "" where
        nothing is said. Raise `InvalidOption`."""
        said = _in_headers(headers)
        said |= {name: (f"vllm_xargs.{name}", extra_args[name]) for name in FIELDS if name in extra_args}
        said |= {name: (name, value) for name, value in options_in(body).items()}
        slo = self._classes[_one_of(said, "slo", self._classes, self._default)]
        return replace(
            asked,
            slo=slo.name,
            ttft_s=_seconds(said, "ttft_ms", slo.ttft_s),
            tpot_s=_seconds(said, "tpot_ms", slo.tpot_s),
            priority=_priority(said, slo.priority),
            topic=_one_of(said, "topic", self._topics, ""),
        )


def options_in(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options among the fields of a body; null says nothing."""
    return {name: body[name] for name in FIELDS if body.get(name) is not None}


def header_of(field: str) -> str:
    """Return the header that says a field of the body."""
    return PREFIX + field.replace("_", "-")


def _in_headers(headers: Headers) -> Said:
    said = {}
    for raw, value in headers:
        name = text(raw)
        if name.startswith(PREFIX):
            field = name.removeprefix(PREFIX).replace("-", "_")
            if field not in FIELDS:
                allowed = [header_of(known) for known in FIELDS]
                near = hint([header_of(known) for known in nearest(field, FIELDS)])
                raise InvalidOption(name, f"is no header that foreserve knows{near}; allowed are {', '.join(allowed)}.")
            said[field] = (name, text(value).strip())
    return said


def _one_of(said: Said, field: str, allowed: Collection[str], default: str) -> str:
    if field not in said:
        return default
    name, value = said[field]
    if not isinstance(value, str) or not value or value not in allowed:
        known = [each for each in allowed if each]
        near = meant(value, known)
        raise InvalidOption(name, f"is {_shown(value)}: allowed is {', '.join(known) or 'none'}{near}.")
    return value


def _seconds(said: Said, field: str, default_s: float) -> float:
    if field not in said:
        return default_s
    name, value = said[field]
    number = _number(value)
    if not (isfinite(number) and number > 0):
        raise InvalidOption(name, f"is {_shown(value)}: it must be a number of milliseconds above 0.")
    return number / 1000


def _priority(said: Said, default: int) -> int:
    if "priority" not in said:
        return default
    name, value = said["priority"]
    number = _whole(value)
    if number is None or not LEAST_PRIORITY <= number <= MOST_PRIORITY:
        raise InvalidOption(
            name, f"is {_shown(value)}: it must be a whole number of 64 bits (a lower one is served sooner)."
        )
    return number


def _whole(value: Any) -> int | None:
    """Parse a whole number; None if it is none. Not by way of a float, which has only 53 bits."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return None if isinstance(value, bool) or (isinstance(value, float) and number != value) else number


def _number(value: Any) -> float:
    """Parse a number; NaN if it is none."""
    try:
        return float("nan") if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."
