"""Errors as gRPC tells them: a status, one sentence, and google.rpc details that a program can act on."""

import re
from collections import defaultdict
from typing import Any, NoReturn

import grpc
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2
from pydantic import ValidationError
from vllm.entrypoints.serve.engine.protocol import ErrorInfo
from vllm.entrypoints.serve.exception_handling.error_response import create_error_response
from vllm.entrypoints.serve.exception_handling.handlers.validation import clean_loc_for_param
from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

from serving.api.grpc.codec import NotFinite, TooMany
from serving.edge.refusals import ENDING, GivenUp

Code = grpc.StatusCode

CODES = {
    400: Code.INVALID_ARGUMENT,
    401: Code.UNAUTHENTICATED,
    403: Code.PERMISSION_DENIED,
    404: Code.NOT_FOUND,
    409: Code.FAILED_PRECONDITION,
    422: Code.INVALID_ARGUMENT,
    429: Code.RESOURCE_EXHAUSTED,
    501: Code.UNIMPLEMENTED,
    503: Code.UNAVAILABLE,
}
# Of vLLM's `GracefulHTTPError`: who comes again later may be served.
NOT_NOW = (429, 503)
DETAILS_KEY = "grpc-status-details-bin"
# When nothing says how soon there will be a place in the queue.
RETRY_AFTER_S = 1.0
# In bytes. Texts travel in HTTP/2 trailers, of which clients accept 8 KiB: once with each odd byte as three, and twice
# in base64, as message and by field.
MAX_TEXT = 1000
MAX_VIOLATIONS = 5


class StatusRefusal(Exception):
    """Ends a call with a status."""

    def __init__(self, code: grpc.StatusCode, text: str, detail: Message | None = None) -> None:
        super().__init__(text)
        self.code, self.text, self.detail = code, _cut(text, MAX_TEXT), detail


class BadRequest(StatusRefusal):
    """INVALID_ARGUMENT: what is wrong, by field; "" stands for a field that nobody has named."""

    def __init__(self, violations: dict[str, str], text: str | None = None) -> None:
        kept = list(violations.items())[:MAX_VIOLATIONS]
        limit = MAX_TEXT // MAX_VIOLATIONS
        detail = error_details_pb2.BadRequest(
            field_violations=[
                {"field": _cut(field, limit // 2), "description": _cut(what, limit)} for field, what in kept
            ]
        )
        text = text or "; ".join(f"`{field}`: {what}" for field, what in kept) + "."
        super().__init__(Code.INVALID_ARGUMENT, text, detail)
        self.violations = violations

    def naming(self, request: dict[str, Any], prompt: str) -> "BadRequest":
        """Return the error with fields named as in `request`, where vLLM only describes them."""
        named = {_in_request(field, what, request, prompt): what for field, what in self.violations.items()}
        return BadRequest(named, self.text)


class QueueFull(StatusRefusal):
    """RESOURCE_EXHAUSTED: come back after so many seconds."""

    def __init__(self, text: str, retry_after_s: float) -> None:
        detail = error_details_pb2.RetryInfo()
        detail.retry_delay.FromNanoseconds(round(retry_after_s * 1e9))
        super().__init__(Code.RESOURCE_EXHAUSTED, text, detail)


def refusal_of(error: Exception) -> StatusRefusal:
    """Return the status for whatever ended a call."""
    if isinstance(error, EngineGenerateError) and isinstance(error.__cause__, Exception):
        error = error.__cause__
    if isinstance(error, StatusRefusal):
        return error
    if isinstance(error, ValidationError):
        return BadRequest(_violations(error))
    if isinstance(error, NotFinite):
        return BadRequest({error.field: "must be a finite number"})
    if isinstance(error, TooMany):
        return BadRequest({error.field: "has too many values"}, str(error))
    if isinstance(error, EngineDeadError):
        return StatusRefusal(Code.UNAVAILABLE, "The engine is dead; another server may answer.")
    is_for_now = getattr(error, "http_status", None) in NOT_NOW and not isinstance(error, GivenUp)
    if is_for_now or hasattr(error, "retry_after_s"):
        return QueueFull(str(error), getattr(error, "retry_after_s", RETRY_AFTER_S))
    return refusal_told(create_error_response(error).error)


def refusal_told(info: ErrorInfo) -> StatusRefusal:
    """Return the status for an error that vLLM's server has put into OpenAI's words."""
    code = CODES.get(info.code, Code.INTERNAL)
    # vLLM's admission control says so by the name of HTTP's 503, which it gives to nothing else; a server that shuts
    # down has it, too.
    is_full = info.type == "Service Unavailable" and info.message != ENDING
    if code is Code.RESOURCE_EXHAUSTED or is_full:
        return QueueFull(info.message, RETRY_AFTER_S)
    if code is Code.INVALID_ARGUMENT:
        return BadRequest({info.param or "": info.message}, info.message)
    return StatusRefusal(code, info.message)


async def refuse(context: grpc.aio.ServicerContext[Any, Any], refusal: StatusRefusal) -> NoReturn:
    """End the call with the status of a refusal."""
    status = status_pb2.Status(code=refusal.code.value[0], message=refusal.text)
    if refusal.detail is not None:
        status.details.add().Pack(refusal.detail)
    await context.abort(refusal.code, refusal.text, ((DETAILS_KEY, status.SerializeToString()),))


def _cut(text: str, limit: int) -> str:
    return text.encode()[:limit].decode(errors="ignore")


def _violations(error: ValidationError) -> dict[str, str]:
    """Return pydantic's complaints by field. Each type of a union complains: keep what most of them say."""
    said: defaultdict[str, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for problem in error.errors(include_url=False, include_input=False):
        field = _path(problem["loc"])
        said[field.partition(".")[0]][field].append(problem["msg"])
    violations = {}
    for fields in said.values():
        most = max(map(len, fields.values()))
        for field, texts in fields.items():
            if len(texts) == most:
                violations[field] = ", or: ".join(dict.fromkeys(texts))
    return violations


def _path(loc: tuple[int | str, ...]) -> str:
    # Names of classes are vLLM's business; OpenAI's fields are in lower case.
    kept = [part for part in loc if re.fullmatch("[a-z0-9_]+", str(part))]
    # What is validated late, as it is read, has lost the beginning of its path.
    return str(clean_loc_for_param(tuple(kept))) if kept and isinstance(kept[0], str) else ""


def _in_request(field: str, what: str, request: dict[str, Any], prompt: str) -> str:
    if field in ("input_tokens", "input_text"):
        return prompt  # vLLM's names for what became of it.
    if field:
        return field
    words = re.findall(r"\w+", what)
    # A plain word like `stop` is only a name where the sentence begins with it.
    top = [word for i, word in enumerate(words) if word in request and (i == 0 or "_" in word)]
    nested = [
        f"{key}.{word}" for key, value in request.items() if isinstance(value, dict) for word in words if word in value
    ]
    return next(iter(top + nested), "")
