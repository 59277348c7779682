"""Bounded grammars for a small token model, which ends a string, a list or a number by chance alone.

A schema's strings get a longest length, its lists a largest number and its numbers a largest size, where the client
has set none: so the answer ends, and is what was asked for.
"""

import copy
from typing import Any

from vllm.sampling_params import StructuredOutputsParams
from vllm.v1.structured_output.backend_xgrammar import STRING_SUPPORTED_FORMATS

from serving.token_source.grammars.asked_schemas import changed_schemas
from serving.token_source.grammars.schema_keywords import ASSERTED, JOINED, changed_value

MOST_CHARS, MOST_ITEMS, MOST = 32, 2, 10**6
ANY_OBJECT = {
    "type": "object",
    "properties": {"answer": {"type": "string", "minLength": 1, "maxLength": 200}},
    "required": ["answer"],
    "additionalProperties": False,
}
"""Any object will do for who asks for one without a schema, and it would always be {}."""
SAID = frozenset({"enum", "const", "pattern", "maxLength"})
"""Keywords with which a client says itself how long a string is, or what is in it, as a format does that xgrammar
knows."""
DAY, HOUR = "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])", "([01][0-9]|2[0-3]):[0-5][0-9]"
TIME, NAME = f"{HOUR}:[0-5][0-9](Z|[+-]{HOUR})", "[a-z0-9]([a-z0-9-]{0,14}[a-z0-9])?"
FORMATS = {
    "date-time": f"^{DAY}T{TIME}$",
    "time": f"^{TIME}$",
    "duration": "^P([0-9]{1,3}[DW]|T[0-9]{1,3}[HMS])$",
    "email": f"^[A-Za-z0-9_-]{{1,16}}@{NAME}\\.[a-z]{{2,6}}$",
    "uri": f"^https?://{NAME}\\.[a-z]{{2,6}}(/[A-Za-z0-9_-]{{1,16}}){{0,2}}$",
}
"""Patterns for the formats that have no end (the digits of a second, the names of a host) and that a small model goes
on with to its limit: each allows less than its format does."""
BESIDE = frozenset({"enum", "const", "pattern", "minLength", "maxLength"})
"""Keywords that such a pattern would have to agree with."""
RANGE = frozenset({"enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
"""... and in which range a number is."""
COUNTS = frozenset({"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"})
"""Keywords with whole numbers, which JSON may write as 1.0, and xgrammar does not read so."""


def bounded(asked: StructuredOutputsParams) -> StructuredOutputsParams:
    """Return structured outputs whose schemas are bounded; what is no JSON, or no schema, is for vLLM to refuse."""
    if asked.json_object:
        asked = copy.copy(asked)
        asked.json_object, asked.json = None, ANY_OBJECT
    return changed_schemas(asked, bounded_schema)


def bounded_schema(schema: Any) -> Any:
    """Return a JSON schema with bounds on strings and lists that have none."""
    if isinstance(schema, list):
        return [bounded_schema(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _below(key, value) for key, value in schema.items()}
    if not (ASSERTED | JOINED) & schema.keys():
        return found | {"type": "string", "maxLength": MOST_CHARS}  # anything, which might go on for ever
    kinds = schema.get("type")
    kinds = [kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if isinstance(kind, str)]
    if "string" in kinds and schema.get("format") in FORMATS and not BESIDE & schema.keys():
        found["pattern"] = FORMATS[found.pop("format")]
    elif "string" in kinds and not SAID & schema.keys() and schema.get("format") not in STRING_SUPPORTED_FORMATS:
        found["maxLength"] = max(MOST_CHARS, found.get("minLength", 0))
    if "array" in kinds and "maxItems" not in schema:
        found["maxItems"] = max(MOST_ITEMS, found.get("minItems", 0), len(found.get("prefixItems", ())))
    if {"integer", "number"} & set(kinds) and not RANGE & schema.keys():
        found |= {"minimum": -MOST, "maximum": MOST}
    return found


def _below(key: str, value: Any) -> Any:
    if key in COUNTS and isinstance(value, float) and value.is_integer():
        return int(value)
    return changed_value(key, value, bounded_schema)
