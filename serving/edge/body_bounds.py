"""Bounds of a request's body, before anything is made of it: what would take the edge long to parse further."""

from collections.abc import Mapping
from typing import Any, TypeGuard

from pydantic import TypeAdapter, ValidationError

from serving.edge.request_bounds import MOST_ENTRIES, OutOfBounds, check_count

# Fields of a body that have to be objects: vLLM's server asks them for their keys before it looks at their type.
OBJECTS = ("structured_outputs", "response_format", "stream_options")
# Entries of fields of a body; those that `request_bounds` has, too, are refused here before anything is made of them.
MOST_IN_BODY = {
    **{field: MOST_ENTRIES[field] for field in ("stop", "stop_token_ids", "bad_words", "logit_bias")},
    "messages": 1024,
    "input": 1024,
    "tools": 128,
    "documents": 128,
    "items": 128,
    "vllm_xargs": 16,
    "chat_template_kwargs": 64,
}
IN_BATCH: dict[str, tuple[type, ...]] = {"prompt": (str, list), "messages": (list,)}
"""The types of a request among several in a body's field: a prompt's text or tokens, a conversation's messages."""
# Of a batch, each of which is a request: all of them are rendered at once.
MOST_CONVERSATIONS = 128
# Characters, or tokens, of all prompts of a call that scores items: each is a request, and all come at once.
MOST_SCORED = 1 << 18
# Each token of a beam is a request of its own, with all before it as its prompt.
MOST_BEAM_TOKENS = 256
# What vLLM's server takes for one: also "3" and 3.0.
WHOLE = TypeAdapter(int)


def check_body(body: Any, places: int) -> None:
    """Raise `OutOfBounds` for a body too large to parse further; `places` is the queue's capacity."""
    if not isinstance(body, dict):
        raise OutOfBounds("body", f"is of the type {type(body).__name__}: it must be an object.")
    for field in OBJECTS:
        if not isinstance(body.get(field), dict | None):
            raise OutOfBounds(field, f"is of the type {type(body[field]).__name__}: it must be an object.")
    _check_batch(body, places)
    for field, most in MOST_IN_BODY.items():
        entries = body.get(field)
        if isinstance(entries, list | dict):
            check_count(field, len(entries), most)
    check_scoring(body)
    # Which of them counts depends on the route, and completions ignore the one that they don't know.
    limits = [body[name] for name in ("max_tokens", "max_completion_tokens") if body.get(name) is not None]
    short = bool(limits) and all(isinstance(limit, int) and limit <= MOST_BEAM_TOKENS for limit in limits)
    if body.get("use_beam_search") and not short:
        raise OutOfBounds("use_beam_search", f"wants `max_tokens`, of at most {MOST_BEAM_TOKENS}.")


def _check_batch(body: Mapping[str, Any], places: int) -> None:
    """Raise `OutOfBounds` for several prompts, or conversations, that are more than may be, or are to have more answers
    together than the queue has places: though it were empty, there would never be room for them."""
    n = _answers(body)
    for field, most in (("prompt", places), ("messages", min(MOST_CONVERSATIONS, places))):
        entries = body.get(field)
        if is_batch(entries, field):
            check_count(field, len(entries), most)
            if len(entries) > 1 and len(entries) * n > places:
                sentence = f"is {n} for each of {len(entries)} entries of `{field}`: together they may be {places}."
                raise OutOfBounds("n", sentence)


def _answers(body: Mapping[str, Any]) -> int:
    """Return how many answers a body wants of each entry; what is no number is vLLM's to refuse."""
    try:
        return WHOLE.validate_python(body.get("n"))
    except ValidationError:
        return 1


def check_scoring(body: Mapping[str, Any]) -> None:
    """Raise `OutOfBounds` for a body whose `query`, once for each of its `items`, makes prompts too long together."""
    query, items = body.get("query"), body.get("items")
    if isinstance(query, str | list) and isinstance(items, list):
        size = len(items) * len(query) + sum(len(item) for item in items if isinstance(item, str | list))
        if size > MOST_SCORED:
            sentence = f"and `query`, repeated for each of them, have {size} characters or tokens: they may have"
            raise OutOfBounds("items", f"{sentence} {MOST_SCORED}.")


def is_batch(entries: Any, field: str) -> TypeGuard[list[Any]]:
    """Tell whether a body's field holds a list of what are requests each: prompts, or conversations."""
    return isinstance(entries, list) and bool(entries) and isinstance(entries[0], IN_BATCH[field])
