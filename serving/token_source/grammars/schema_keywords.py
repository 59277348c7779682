"""Keywords of JSON schemas, by what their values are."""

NAMED_SCHEMAS = frozenset({"properties", "patternProperties", "$defs", "definitions"})
"""Keywords whose value has schemas by name; of all others a value may be a schema, or a list of them."""
VALUES = frozenset({"enum", "const", "default", "examples", "required"})
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
