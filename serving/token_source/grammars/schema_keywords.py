"""Keywords of JSON schemas, by what their values are."""

from collections.abc import Callable
from typing import Any

NAMED_SCHEMAS = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
"""Keywords whose value has schemas by name; of all others a value may be a schema, or a list of them."""
VALUES = frozenset({"enum", "const", "default", "examples", "required", "dependentRequired"})
"""Keywords with values that only look like schemas."""
JOINED = frozenset({"allOf", "anyOf", "oneOf", "$ref"})
"""Keywords that say elsewhere what an instance has to be."""
ASSERTED = frozenset(
    {"type", "enum", "const", "format", "pattern", "minLength", "maxLength"}
    | {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
    | {"items", "prefixItems", "contains", "minItems", "maxItems", "uniqueItems", "unevaluatedItems"}
    | {"properties", "patternProperties", "additionalProperties", "propertyNames", "unevaluatedProperties"}
    | {"required", "minProperties", "maxProperties", "dependentRequired", "dependentSchemas"}
    | {"not", "if", "then", "else"}
)
"""Keywords that say here what an instance has to be. All others, as far as is known, only tell of it."""


def changed_value(key: str, value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a keyword's value with each schema in it changed."""
    if key in VALUES:
        return value
    if key in NAMED_SCHEMAS and isinstance(value, dict):
        return {name: change(each) for name, each in value.items()}
    return [change(each) for each in value] if isinstance(value, list) else change(value)
