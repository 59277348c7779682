"""Bounds of one request: what the token source may be given.

vLLM checks ids against the vocabulary, and most numbers. Refused here is what it would accept and what could then
raise, or stall other requests, in the source: text that no encoding carries, keys that are ours alone, endless lists.
"""

from collections.abc import Mapping
from math import isnan
from typing import Any

import msgspec
from vllm.exceptions import VLLMClientError
from vllm.sampling_params import SamplingParams
from vllm.v1.engine import EngineCoreRequest

from serving.admission.request_options import FIELDS
from serving.edge.json_values import items_of, values_in
from serving.edge.refusals import Invalid
from serving.edge.schema_size import counted_properties

MOST_ID_CHARS = 256
MOST_SALT_CHARS = 1024
# What clients may put into `vllm_xargs`; scalars, as vLLM's own server takes.
MOST_XARG_CHARS = 256
# Entries of each list, and characters of each of its strings. Stop strings are looked for at each token at the edge;
# bad words, and biases, cost the source time at each step of everybody.
MOST_ENTRIES = {
    "stop": 64,
    "stop_token_ids": 1024,
    "bad_words": 128,
    "logit_bias": 1024,
    "allowed_token_ids": 1 << 17,
}
MOST_CHARS = {"stop": 1024, "bad_words": 256}
# Of a grammar, in whatever form: it takes the source up to a second to compile. And of a schema's named properties, by
# how many of them there may be: at 60,000 it takes a minute, and a gigabyte.
MOST_GRAMMAR_CHARS, MOST_COUNTED = 32 << 10, 4096
# The source looks for repetition after each token, at the cost of the size of the pattern times that of its count.
MOST_PATTERN = 256
# A bias so extreme makes infinities in float32, and then no probability is a number.
MOST_PENALTY = 1e4

# Structured outputs that have schemas in them.
SCHEMAS = ("json", "structural_tag")

NO_CHARACTER = "has a lone surrogate, which is no character: UTF-8 cannot carry it."
Path = tuple[Any, str] | None
"""Names on the way to a value, the last one first: what is deep costs no more than what is not."""

# Tokens of a prompt, times alternatives for each: they take the edge some 5 us each.
MOST_PROMPT_LOGPROBS = 1 << 12
# Of a whole number that nothing else bounds: tensors of the source have 32 bits.
MOST_INT = 2**31 - 1
# What a message to the token source, or to the engine core, can carry.
CARRIED = range(-(2**63), 2**64)
INTEGERS = ("top_k", "max_tokens", "min_tokens", "logprobs", "prompt_logprobs", "stream_interval")


class OutOfBounds(Invalid):
    """A request beyond the bounds, with the name of the field."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(f"`{field}` {sentence}", parameter=field)


def check_text_alone(request: EngineCoreRequest, max_model_len: int) -> None:
    """Raise `VLLMClientError` for a request of vLLM's engine that is for something else than text, or has none; let one
    end where the context of `max_model_len` tokens does, as vLLM's engine would."""
    params = request.sampling_params
    if params is None:
        raise VLLMClientError("foreserve emulates text generation only: no pooling requests.")
    if request.abort_immediately:
        raise VLLMClientError("foreserve transfers no KV cache: there is none to be freed.")
    if request.resumable or request.prompt_token_ids is None:
        raise VLLMClientError("foreserve takes whole prompts of text or tokens: no embeddings, no streamed input.")
    if not request.prompt_token_ids or not params.max_tokens:
        raise VLLMClientError("A request has a prompt of at least one token, and may generate at least one.")
    params.max_tokens = most_tokens(params.max_tokens, len(request.prompt_token_ids), max_model_len)


def check_fits(request: EngineCoreRequest, max_model_len: int) -> None:
    """Raise ValueError or `OutOfBounds` for a request that no front end of vLLM's would have sent, and no device
    could end; let one end where the context of `max_model_len` tokens does, as vLLM's engine would."""
    params, prompt = request.sampling_params, len(request.prompt_token_ids or ())
    if params is None:
        return
    if prompt >= max_model_len:
        raise ValueError(f"Its prompt has {prompt} tokens, and the context has {max_model_len}.")
    params.max_tokens = most_tokens(params.max_tokens, prompt, max_model_len)
    check_request(request.request_id[:MOST_ID_CHARS], params, request.cache_salt)
    check_prompt_logprobs(prompt, params)


def most_tokens(asked: int | None, prompt: int, max_model_len: int) -> int:
    """Return the tokens that a request may have behind a prompt of so many, of those that it asks for, in a context of
    `max_model_len`."""
    left = max(1, max_model_len - prompt)
    return left if asked is None else min(asked, left)


def check_request(request_id: str, params: SamplingParams, cache_salt: str | None = None) -> None:
    """Raise `OutOfBounds` for sampling parameters beyond the bounds."""
    _check_length("request_id", request_id, MOST_ID_CHARS)
    _check_length("cache_salt", cache_salt or "", MOST_SALT_CHARS)
    _check_extra_args(params.extra_args or {})
    for field, most in MOST_ENTRIES.items():
        check_count(field, len(getattr(params, field) or ()), most)
    for field in INTEGERS:
        if abs(getattr(params, field) or 0) > MOST_INT:
            raise OutOfBounds(field, f"is too large: it may be {MOST_INT}.")
    for field, chars in MOST_CHARS.items():
        for index, entry in enumerate(getattr(params, field) or ()):
            _check_length(f"{field}.{index}", entry, chars)
    _check_penalty(params.repetition_penalty)
    _check_biases(params.logit_bias or {})
    _check_repetition(params.repetition_detection)
    _check_structured_outputs(params.structured_outputs)


def check_prompt_logprobs(tokens: int, params: SamplingParams) -> None:
    """Raise `OutOfBounds` for too many log probabilities of a prompt of `tokens` tokens."""
    if params.prompt_logprobs is not None:
        wanted = tokens * (1 + abs(params.prompt_logprobs))
        if wanted > MOST_PROMPT_LOGPROBS:
            raise OutOfBounds(
                "prompt_logprobs",
                f"(of `echo` as well) asks for {wanted} log probabilities, and may ask for {MOST_PROMPT_LOGPROBS}: "
                "send a shorter prompt, or ask for fewer of each token.",
            )


def check_text(field: str, said: Any) -> None:
    """Raise `OutOfBounds` for a string, anywhere in `said`, that UTF-8 cannot carry."""
    if (path := unencodable(said)) is not None:
        raise OutOfBounds(".".join([field, *path]), NO_CHARACTER)


def check_integers(field: str, said: Any) -> None:
    """Raise `OutOfBounds` for a whole number, anywhere in `said`, of more than 64 bits."""
    for value in values_in(said):
        if isinstance(value, int) and value not in CARRIED:
            raise OutOfBounds(field, f"has a whole number of {value.bit_length()} bits, and may have one of 64.")


def unencodable(said: Any) -> list[str] | None:
    """Return the path to a string in a JSON value that UTF-8 cannot carry; None if there is none."""
    pending: list[tuple[Path, Any]] = [(None, said)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, str) and not is_encodable(value):
            return _names(path)
        for name, item in items_of(value):
            if isinstance(name, str) and not is_encodable(name):
                return [*_names(path), ascii(name)[1:-1]]
            pending.append(((path, str(name)), item))
    return None


def is_encodable(text: str) -> bool:
    """Tell whether UTF-8 can carry a text: a lone surrogate, which JSON can write as an escape, it cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _names(path: Path) -> list[str]:
    names = []
    while path is not None:
        path, name = path
        names.append(name)
    return names[::-1]


def check_count(field: str, count: int, most: int) -> None:
    """Raise `OutOfBounds` for more entries than there may be."""
    if count > most:
        raise OutOfBounds(field, f"has {count} entries, and may have {most}.")


def _check_length(field: str, text: str, most: int) -> None:
    if len(text) > most:
        raise OutOfBounds(field, f"has {len(text)} characters, and may have {most}.")
    check_text(field, text)


def _check_extra_args(extra_args: Mapping[str, Any]) -> None:
    for name, value in extra_args.items():
        if name not in FIELDS:
            raise OutOfBounds("vllm_xargs", f"may have {', '.join(FIELDS)}, and has {ascii(name)[:80]}.")
        if isinstance(value, str):
            _check_length(f"vllm_xargs.{name}", value, MOST_XARG_CHARS)


def _check_penalty(penalty: float) -> None:
    if not 1 / MOST_PENALTY <= penalty <= MOST_PENALTY:
        raise OutOfBounds(
            "repetition_penalty", f"is {penalty:g}: it must lie in {1 / MOST_PENALTY:g} to {MOST_PENALTY:g}."
        )


def _check_biases(biases: Mapping[int, float]) -> None:
    """Raise `OutOfBounds` for a bias that is no number, as protobuf may say: vLLM bounds the others, and of that one
    the answer would be the last token of the vocabulary, again and again."""
    for token, bias in biases.items():
        if isnan(bias):
            raise OutOfBounds("logit_bias", f"has {bias} for token {token}: it must be a number.")


def _check_repetition(detection: Any) -> None:
    if detection is not None and detection.max_pattern_size > MOST_PATTERN:
        raise OutOfBounds(
            "repetition_detection.max_pattern_size", f"is {detection.max_pattern_size}: it may be {MOST_PATTERN}."
        )


def _check_structured_outputs(structured: Any) -> None:
    if structured is None:
        return
    for name in ("json", "regex", "choice", "grammar", "structural_tag", "whitespace_pattern"):
        said = getattr(structured, name)
        check_text(f"structured_outputs.{name}", said)
        check_integers(f"structured_outputs.{name}", said)
        chars = len(said) if isinstance(said, str) else len(msgspec.json.encode(said))
        if chars > MOST_GRAMMAR_CHARS:
            raise OutOfBounds("structured_outputs", f"has {chars} characters, and may have {MOST_GRAMMAR_CHARS}.")
        if name in SCHEMAS and (counted := counted_properties(said)) > MOST_COUNTED:
            sentence = f"has objects whose properties, times minProperties or maxProperties, are {counted} in all"
            raise OutOfBounds("structured_outputs", f"{sentence}: they may be {MOST_COUNTED}.")
