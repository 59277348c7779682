"""Merged schemas: says in one what a JSON schema says in several places that have to agree.

xgrammar takes several parts of `allOf` for any value, forgets what stands beside `allOf`, `anyOf` or `$ref`, and lets
an object lack what is required but not among its properties: the answer would be no instance of its schema.
"""

import json
from collections.abc import Callable, Mapping
from functools import reduce
from itertools import product
from typing import Any

from vllm.sampling_params import StructuredOutputsParams

from serving.token_source.grammars.asked_schemas import SchemaConflict, changed_schemas
from serving.token_source.grammars.schema_keywords import ASSERTED, JOINED, changed_value

Schema = dict[str, Any]

MOST_PARTS = 4096
"""Parts that are made into one, in all of a schema, and schemas in what they make: they may double with each level."""
MOST_ENTRIES = 1 << 16
"""Entries of lists and objects in parts that are made into one: `enum` and `properties` may have thousands."""
MOST_DEEP = 64
"""Schemas within schemas that have parts; a `$ref` may have itself in it."""


def merged(asked: StructuredOutputsParams) -> StructuredOutputsParams:
    """Return structured outputs whose schemas are merged. Raise SchemaConflict."""
    return changed_schemas(asked, merged_schema)


def merged_schema(schema: Any) -> Any:
    """Return a JSON schema with the same instances (`oneOf` is read as `anyOf`, as xgrammar does) that xgrammar
    follows. Raise SchemaConflict if nothing is an instance of it, or of one in it, or what has to agree can't be said
    in one."""
    return SchemaMerger(schema).merged(schema)


class SchemaMerger:
    """Merges the parts of one schema."""

    def __init__(self, root: Any) -> None:
        """`root` is what a `$ref` begins at."""
        self._root, self._parts, self._entries = root, 0, 0

    def merged(self, schema: Any, depth: int = 0) -> Any:
        """Return a schema merged, and all those in it. Raise SchemaConflict."""
        if not isinstance(schema, dict):
            return schema
        self._count(1 if depth else 0)
        if _has_to_agree(schema):
            depth += 1
            alternatives = self._alternatives(schema, depth)
            told = {key: value for key, value in schema.items() if key not in JOINED | ASSERTED}
            schema = told | (alternatives[0] if len(alternatives) == 1 else {"anyOf": alternatives})
        below = {key: changed_value(key, value, lambda each: self.merged(each, depth)) for key, value in schema.items()}
        return _with_required(below)

    def _alternatives(self, schema: Any, depth: int) -> list[Schema]:
        """Return schemas of `ASSERTED` keywords alone: what is an instance is one of any of them."""
        if not isinstance(schema, dict):
            return [] if schema is False else [{}]
        if depth > MOST_DEEP:
            raise SchemaConflict(f"`$ref`, `allOf` and `anyOf` have each other in them more than {MOST_DEEP} deep")
        groups = [[{key: value for key, value in schema.items() if key in ASSERTED}]]
        if "$ref" in schema:
            groups.append(self._alternatives(self._target(schema["$ref"]), depth + 1))
        groups += [self._alternatives(part, depth + 1) for part in _list_in(schema, "allOf")]
        for key in ("anyOf", "oneOf"):
            if options := _list_in(schema, key):
                groups.append([each for option in options for each in self._alternatives(option, depth + 1)])
        return self._agreeing(groups)

    def _agreeing(self, groups: list[list[Schema]]) -> list[Schema]:
        """Return what is of an alternative of each group; raise SchemaConflict if nothing is."""
        agreeing, conflict = [], SchemaConflict("`false` allows nothing")
        for parts in product(*groups):
            self._count(len(parts), sum(map(_entries, parts)) if len(parts) > 1 else 0)
            try:
                agreeing.append(reduce(_both, parts))
            except SchemaConflict as error:
                conflict = error
        if not agreeing:
            raise conflict
        return agreeing

    def _count(self, parts: int, entries: int = 0) -> None:
        """Count parts of a schema, and their entries; raise SchemaConflict if there are too many."""
        self._parts, self._entries = self._parts + parts, self._entries + entries
        for found, most, what in ((self._parts, MOST_PARTS, "parts"), (self._entries, MOST_ENTRIES, "entries")):
            if found > most:
                raise SchemaConflict(f"`allOf`, `anyOf` and `$ref` make more than {most} {what} of it")

    def _target(self, reference: Any) -> Any:
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise SchemaConflict(f"`$ref` {str(reference)[:80]!r} is not within the schema")
        target = self._root
        for name in reference.split("/")[1:]:
            name = name.replace("~1", "/").replace("~0", "~")
            if not isinstance(target, dict) or name not in target:
                raise SchemaConflict(f"`$ref` {reference[:80]!r} names nothing")
            target = target[name]
        return target


def _has_to_agree(schema: Schema) -> bool:
    """Tell whether a schema says in more than one place what an instance has to be."""
    joined = JOINED & schema.keys()
    return bool(joined and ASSERTED & schema.keys()) or len(joined) > 1 or len(_list_in(schema, "allOf")) > 1


def _entries(part: Schema) -> int:
    """Return how many entries the lists and objects of a part have."""
    return sum(len(value) for value in part.values() if isinstance(value, list | dict))


def _list_in(schema: Schema, key: str) -> list[Any]:
    value = schema.get(key, [])
    return value if isinstance(value, list) else []


def _with_required(schema: Schema) -> Schema:
    """Return a schema of objects that names among the properties what it requires."""
    required, named, others = schema.get("required"), schema.get("properties", {}), schema.get("additionalProperties")
    if not isinstance(required, list) or not isinstance(named, dict) or "patternProperties" in schema:
        return schema
    missing = [name for name in required if isinstance(name, str) and name not in named]
    if missing and others is False:
        raise SchemaConflict(f"`required` has {missing[0][:80]!r}, which `additionalProperties` forbids")
    if not missing:
        return schema
    return schema | {"properties": named | dict.fromkeys(missing, others if isinstance(others, dict) else {})}


def _both(one: Schema, other: Schema) -> Schema:
    """Return a schema whose instances are those of both. Raise SchemaConflict if there are none, or it can't say so."""
    found = dict(one)
    properties = _both_properties(one, other)
    for key, value in other.items():
        if key not in found or _is_same(found[key], value):
            found[key] = value
        elif key in RULES:
            found[key] = RULES[key](found[key], value)
        elif key != "properties":
            raise SchemaConflict(f"its parts have different `{key}`")
    _settle_const(found)
    return found | {"properties": properties} if properties is not None else found


def _settle_const(schema: Schema) -> None:
    """Drop `enum` beside `const`: a grammar follows one of them. Raise SchemaConflict if they contradict each other."""
    if "const" in schema and isinstance(values := schema.get("enum"), list):
        if not any(_is_same(schema["const"], value) for value in values):
            raise SchemaConflict("its parts have no value of `enum` and `const` in common")
        del schema["enum"]


def _both_properties(one: Schema, other: Schema) -> Schema | None:
    """Return the properties that both allow, as both want them; None where neither names any."""
    first, second = (part.get("properties") for part in (one, other))
    if not isinstance(first, dict) and not isinstance(second, dict):
        return None
    first, second = first or {}, second or {}
    wanted = {name: [part[name] for part in (first, second) if name in part] for name in (*first, *second)}
    for mine, part in ((first, one), (second, other)):
        others = part.get("additionalProperties", True)
        if others is not True and "patternProperties" in part:
            raise SchemaConflict("its parts have `patternProperties`")
        for name in wanted.keys() - mine.keys():
            wanted[name].append(others)
    return {name: _one_of_all(parts) for name, parts in wanted.items() if False not in parts}


def _one_of_all(parts: list[Any]) -> Any:
    parts = [part for index, part in enumerate(parts) if part is not True and part not in parts[:index]]
    return {"allOf": parts} if len(parts) > 1 else (parts or [{}])[0]


def _both_kinds(one: Any, other: Any) -> Any:
    kinds = [kind if isinstance(kind, list) else [kind] for kind in (one, other)]
    wider = [{*of, "integer"} if "number" in of else {*of} for of in kinds]
    both = [kind for kind in dict.fromkeys(kinds[0] + kinds[1]) if all(kind in of for of in wider)]
    if not both:
        raise SchemaConflict(f"its parts are of different `type`: {one} and {other}")
    return both[0] if len(both) == 1 else both


def _both_values(one: Any, other: Any) -> Any:
    others = set(map(_written, other))
    both = [value for value in one if _written(value) in others]
    if not both:
        raise SchemaConflict("its parts have no value of `enum` in common")
    return both


def _is_same(one: Any, other: Any) -> bool:
    """Tell whether two values are the same JSON, where true isn't 1."""
    return one == other and _written(one) == _written(other)


def _written(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _both_others(one: Any, other: Any) -> Any:
    return False if False in (one, other) else _one_of_all([one, other])


RULES: Mapping[str, Callable[[Any, Any], Any]] = {
    "type": _both_kinds,
    "enum": _both_values,
    "required": lambda one, other: list(dict.fromkeys([*one, *other])),
    "additionalProperties": _both_others,
    "items": lambda one, other: _one_of_all([one, other]),
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
}
"""What both want of a keyword."""
