"""Has a merged schema the instances of the client's, said in one place each?"""

import json
from typing import Any

import pytest
import xgrammar
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from serving.token_source.grammars.asked_schemas import SchemaConflict
from serving.token_source.grammars.merged_schema import MOST_ENTRIES, MOST_PARTS, merged_schema
from serving.token_source.grammars.schema_keywords import ASSERTED, JOINED

NAMES = st.sampled_from(["a", "b", "enum", "allOf"])
BASE = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
LEAVES = st.sampled_from(
    [
        {"type": "string"},
        {"type": "integer", "minimum": 2},
        {"type": ["number", "null"], "maximum": 3},
        {"enum": ["a", 1, None]},
        {"enum": [1, 2]},
        {"const": 1},
        {"const": "bc"},
        {"$ref": "#/$defs/base"},
        {"minLength": 2},
        {},
        True,
        False,
    ]
)


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    keywords = {
        "properties": st.dictionaries(NAMES, inner, max_size=3),
        "required": st.lists(NAMES, max_size=2, unique=True),
        "additionalProperties": inner,
        "type": st.just("object"),
        "allOf": st.lists(inner, min_size=1, max_size=3),
        "anyOf": st.lists(inner, min_size=1, max_size=3),
        "items": inner,
        "title": st.just("told"),
    }
    return st.fixed_dictionaries({}, optional=keywords)


SCHEMAS = st.recursive(LEAVES, _objects, max_leaves=8)
VALUES = st.recursive(
    st.sampled_from([None, True, 1, 2, 4, 1.5, "a", "bc"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


def _whole(schema: Any) -> Any:
    return {"$defs": {"base": BASE}} | schema if isinstance(schema, dict) else schema


@given(SCHEMAS, st.lists(VALUES, min_size=1, max_size=8))
def test_a_merged_schema_has_the_instances_of_the_clients(schema: Any, values: list[Any]) -> None:
    whole = Draft202012Validator(_whole(schema))
    try:
        found = merged_schema(_whole(schema))
    except SchemaConflict:  # perhaps of a property that need not be there
        return
    narrow = Draft202012Validator(found)
    for value in values:
        assert narrow.is_valid(value) == whole.is_valid(value), (found, value)
    assert merged_schema(found) == found


def _places(schema: Any) -> list[dict[str, Any]]:
    if isinstance(schema, list):
        return [place for each in schema for place in _places(each)]
    if not isinstance(schema, dict):
        return []
    below = [place for key, value in schema.items() for place in _places(value)]
    return [schema, *below]


def test_what_has_to_agree_is_said_in_one_place() -> None:
    found = merged_schema(
        {
            "$defs": {"base": BASE},
            "allOf": [{"$ref": "#/$defs/base"}, {"properties": {"b": {"type": "boolean"}}}],
            "required": ["b", "c"],
            "description": "kept",
        }
    )
    assert found["properties"] == {"a": {"type": "integer"}, "b": {"type": "boolean"}, "c": {}}
    assert set(found["required"]) == {"a", "b", "c"} and found["description"] == "kept"
    choice = merged_schema({"type": "object", "properties": {"a": {}}, "anyOf": [{"required": ["a"]}, BASE]})
    assert all("properties" in each for each in choice["anyOf"]) and choice.keys() == {"anyOf"}
    for place in _places(found) + _places(choice):
        assert not (JOINED & place.keys() and ASSERTED & place.keys())


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"next": {"$ref": "#"}}},
        {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None, "title": "Name"},
        {"allOf": [{"$ref": "#/$defs/base"}], "description": "as pydantic writes it", "$defs": {"base": BASE}},
        {"type": "object", "properties": {"allOf": {"type": "integer"}, "required": {"type": "string"}}},
        {"oneOf": [{"type": "string"}, {"type": "integer"}], "discriminator": {"propertyName": "kind"}},
    ],
)
def test_what_is_said_in_one_place_stays(schema: dict[str, Any]) -> None:
    assert merged_schema(schema) == schema


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"allOf": [{"type": "string"}, {"type": "integer"}]}, "different `type`"),
        ({"allOf": [{"enum": [1]}, {"enum": [True]}]}, "no value of `enum`"),
        ({"allOf": [{"pattern": "a"}, {"pattern": "b"}]}, "different `pattern`"),
        ({"properties": {"a": {}}, "required": ["z"], "additionalProperties": False}, "`required` has 'z'"),
        ({"$ref": "https://example.org/a", "type": "object"}, "not within the schema"),
        ({"$ref": "#/$defs/a", "type": "object"}, "names nothing"),
        ({"allOf": [{"$ref": "#"}], "type": "object"}, "more than 64 deep"),
    ],
)
def test_a_contradiction_is_told_of(schema: dict[str, Any], why: str) -> None:
    with pytest.raises(SchemaConflict, match=why):
        merged_schema(schema)


def test_a_schema_that_doubles_at_each_level_ends() -> None:
    level = {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}, {"$ref": f"#/$defs/d{i + 1}"}]} for i in range(20)}
    with pytest.raises(SchemaConflict, match=f"more than {MOST_PARTS} parts"):
        merged_schema({"$ref": "#/$defs/d0", "type": "object", "$defs": level | {"d20": {"type": "object"}}})


@pytest.mark.timeout(10)
def test_values_that_thousands_are_compared_with_in_each_alternative_are_refused_in_time() -> None:
    schema = {"E": {"enum": [0] * 6500}, "enum": [1] * 6500, "anyOf": [{"$ref": "#/E"}] * 400}
    with pytest.raises(SchemaConflict, match=f"more than {MOST_ENTRIES} entries"):
        merged_schema(schema)
    with pytest.raises(SchemaConflict, match="no value of `enum` in common"):
        merged_schema({"enum": [1] * 8000, "allOf": [{"enum": [True] * 3000}]})
    many = [*range(8000)]
    assert merged_schema({"enum": many, "allOf": [{"enum": many[::-1]}]})["enum"] == many


def test_xgrammar_follows_what_is_merged_and_not_what_was() -> None:
    schema = {"allOf": [BASE, {"type": "object", "properties": {"b": {"type": "boolean"}}, "required": ["b"]}]}
    assert _accepts(schema, '"no object"') and not _accepts(merged_schema(schema), '"no object"')
    assert _accepts(merged_schema(schema), '{"a": 3, "b": true}') and not _accepts(merged_schema(schema), '{"a": 3}')


def _accepts(schema: dict[str, Any], text: str) -> bool:
    tokenizer = xgrammar.TokenizerInfo([bytes([i]) for i in range(256)], xgrammar.VocabType.RAW)
    grammar = xgrammar.GrammarCompiler(tokenizer).compile_json_schema(json.dumps(schema), any_whitespace=False)
    matcher = xgrammar.GrammarMatcher(grammar, terminate_without_stop_token=True)
    return bool(matcher.accept_string(text)) and matcher.is_completed()
