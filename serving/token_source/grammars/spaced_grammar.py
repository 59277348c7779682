"""Spaced grammars for a small token model, which writes JSON as `json.dumps` does: a space after colons and commas.

vLLM lets structured output have any whitespace, or none. With any, a small model fills its answer with it; with none,
its own tokens for what stands between a key and a value don't fit, and it goes on as if it had not written them.
"""

import copy
import json
import re
from typing import Any

import xgrammar
from vllm.exceptions import VLLMClientError
from vllm.sampling_params import StructuredOutputsParams, check_json_nesting
from vllm.v1.structured_output.backend_xgrammar import has_xgrammar_unsupported_json_features

from serving.token_source.grammars.asked_schemas import read_json

SEPARATORS = (", ", ": ")
CONTROLLED, IN_STRING = r"[^\"\\\r\n", r"[^\0-\x1f\"\\\r\n"
"""How xgrammar begins a character of a string, with a longest or least length and without: the first takes raw control
characters, which no JSON has."""

WHERE = re.compile(r"^\[[\d:]+\] \S+:\d+: ")
"""How xgrammar's errors begin: when they were, and at which of its lines."""


def spaced(asked: StructuredOutputsParams) -> StructuredOutputsParams:
    """Return structured outputs whose JSON is spaced. What is no JSON, or no schema that can be followed, is for vLLM
    to refuse."""
    changed = copy.copy(asked)
    try:
        if asked.json is not None:
            check_json_nesting(asked.json)
            changed.grammar, changed.json = grammar_of(read_json(asked.json)), None
        if asked.structural_tag is not None:
            check_json_nesting(asked.structural_tag, structural_tag=True)
            changed.structural_tag = json.dumps(_in_tag(read_json(asked.structural_tag)))
    except (VLLMClientError, ValueError, TypeError, RuntimeError):  # RecursionError is a RuntimeError
        return asked
    return changed


def grammar_of(schema: Any) -> str:
    """Return the grammar of a schema's spaced JSON, in xgrammar's EBNF. Raise ValueError for a schema with keywords
    that xgrammar ignores, RuntimeError for what is none."""
    if has_xgrammar_unsupported_json_features(schema):
        raise ValueError("xgrammar can't follow it")
    return _spaced(schema)


def _spaced(schema: Any) -> str:
    grammar = xgrammar.Grammar.from_json_schema(json.dumps(schema), any_whitespace=False, separators=SEPARATORS)
    return str(grammar).replace(CONTROLLED, IN_STRING)


def reason_against(tag: str) -> str:
    """Return why xgrammar can't follow a structural tag, as it says: "" if it can."""
    try:
        xgrammar.Grammar.from_structural_tag(tag)
    except (RuntimeError, ValueError, TypeError) as error:
        # "[03:11:01] /project/cpp/json_schema_converter.cc:4944: items must be a boolean or an object"
        return WHERE.sub("", str(error).strip())[:200]
    return ""


def _in_tag(tag: Any) -> Any:
    """Return a structural tag with its JSON spaced, wherever in it that is. What xgrammar ignores of a schema there, it
    ignores here: no other backend of vLLM's knows such tags, and unspaced JSON would be filled with whitespace."""
    if isinstance(tag, list):
        return [_in_tag(each) for each in tag]
    if not isinstance(tag, dict):
        return tag
    if tag.keys() == {"type", "json_schema"} and tag["type"] == "json_schema":
        return {"type": "grammar", "grammar": _without_tags(_spaced(tag["json_schema"]))}
    return {key: _in_tag(value) for key, value in tag.items()}


def _without_tags(grammar: str) -> str:
    """Return a grammar of JSON whose strings hold no "<": what looks like the end of a tag would be taken for it."""
    # At the front: what xgrammar puts after it, such as the letters of a known key, would make a range with "-".
    return grammar.replace(IN_STRING, IN_STRING.replace("^", "^<"))
