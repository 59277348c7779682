"""Schemas that a request asks for, in its JSON schema or wherever in its structural tag, changed."""

import copy
import json
from collections.abc import Callable
from typing import Any

from vllm.sampling_params import StructuredOutputsParams

SchemaChange = Callable[[Any], Any]


class SchemaConflict(ValueError):
    """What a schema says in several places, and what can't be followed together; its sentence says of what."""


def changed_schemas(asked: StructuredOutputsParams, change: SchemaChange) -> StructuredOutputsParams:
    """Return structured outputs with their schemas changed; what is no JSON, or no schema, is for vLLM to refuse. Raise
    SchemaConflict, as `change` does."""
    changed = copy.copy(asked)
    try:
        if asked.json is not None:
            changed.json = change(read_json(asked.json))
        if asked.structural_tag is not None:
            changed.structural_tag = json.dumps(_in_tag(read_json(asked.structural_tag), change))
    except SchemaConflict:
        raise
    except (ValueError, TypeError, RecursionError):
        return asked
    return changed


def _in_tag(tag: Any, change: SchemaChange) -> Any:
    """Return a structural tag, as xgrammar has them, with its schemas changed, wherever in it they are."""
    if isinstance(tag, list):
        return [_in_tag(each, change) for each in tag]
    if not isinstance(tag, dict):
        return tag
    return {
        key: change(value) if key in ("json_schema", "schema") else _in_tag(value, change) for key, value in tag.items()
    }


def read_json(text: Any) -> Any:
    """Return what a text says in JSON; what is no text has been read. Raise ValueError."""
    return json.loads(text) if isinstance(text, str) else text
