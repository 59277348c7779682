"""Are schemas bounded where a client left them open, and nowhere else?"""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from vllm.sampling_params import StructuredOutputsParams

from serving.token_source.grammars.bounded_grammar import FORMATS, MOST, MOST_CHARS, MOST_ITEMS, bounded, bounded_schema
from serving.token_source.grammars.spaced_grammar import grammar_of

LEAVES = st.sampled_from(
    [
        {"type": "string"},
        {"type": "integer"},
        {"type": ["number", "null"]},
        {"type": "array", "prefixItems": [{"type": "integer"}] * 3, "items": False},
        {"type": "boolean"},
        {"enum": ["a", 1]},
        {"title": "x"},
        {},
    ]
)
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: (
        st.builds(lambda items: {"type": "array", "items": items}, inner)
        | st.builds(lambda kinds: {"anyOf": kinds}, st.lists(inner, min_size=1, max_size=3))
        | st.builds(
            lambda fields: {"type": "object", "properties": fields, "required": list(fields)},
            st.dictionaries(st.sampled_from(["type", "enum", "items", "name"]), inner, max_size=3),
        )
    ),
    max_leaves=6,
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=50),
    lambda inner: (
        st.lists(inner, max_size=6) | st.dictionaries(st.sampled_from(["type", "enum", "items", "name"]), inner)
    ),
    max_leaves=8,
)


@given(SCHEMAS, VALUES)
def test_what_a_bounded_schema_allows_the_clients_allows(schema: dict[str, object], value: object) -> None:
    narrow = bounded_schema(schema)
    Draft202012Validator.check_schema(narrow)
    if Draft202012Validator(narrow).is_valid(value):
        assert Draft202012Validator(schema).is_valid(value)
    assert bounded_schema(narrow) == narrow


def test_open_strings_lists_and_numbers_are_bounded_wherever_they_are() -> None:
    string = {"type": "string", "maxLength": MOST_CHARS}
    assert bounded_schema({"type": "array", "items": {"type": "string"}}) == {
        "type": "array",
        "items": string,
        "maxItems": MOST_ITEMS,
    }
    elsewhere = {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"type": "string"}]}}}
    assert bounded_schema(elsewhere) == elsewhere | {"$defs": {"a": {"anyOf": [string]}}}
    assert bounded_schema({"type": "integer"}) == {"type": "integer", "minimum": -MOST, "maximum": MOST}
    assert bounded_schema({"type": "string", "minLength": 90})["maxLength"] == 90


@pytest.mark.parametrize(
    ("kind", "good"),
    [
        ("date-time", ["2026-11-27T08:30:00Z", "2026-12-01T23:59:59+01:00"]),
        ("time", ["08:30:00Z"]),
        ("duration", ["P3D", "PT45M", "P2W"]),
        ("email", ["anna_b@example.org"]),
        ("uri", ["https://example.org", "http://a-b.de/menu/today"]),
    ],
)
def test_a_format_without_an_end_gets_a_pattern_with_one(kind: str, good: list[str]) -> None:
    narrow = bounded_schema({"type": "string", "format": kind, "description": "when"})
    assert narrow == {"type": "string", "pattern": FORMATS[kind], "description": "when"}
    checker = Draft202012Validator(
        {"type": "string", "format": kind}, format_checker=Draft202012Validator.FORMAT_CHECKER
    )
    for value in good:
        assert Draft202012Validator(narrow).is_valid(value) and checker.is_valid(value), value
    assert not Draft202012Validator(narrow).is_valid("2026-11-27T08:30:00.5500000000Z")
    assert not Draft202012Validator(narrow).is_valid("a" * 99 + "@example.org")


def test_what_only_tells_of_itself_is_bounded_as_what_says_nothing() -> None:
    asked = {"type": "object", "properties": {"value": {"title": "Value"}}, "dependentRequired": {"value": ["other"]}}
    assert bounded_schema(asked) == asked | {
        "properties": {"value": {"title": "Value", "type": "string", "maxLength": MOST_CHARS}}
    }


def test_as_many_entries_as_are_said_one_by_one_have_room() -> None:
    asked = {"type": "array", "prefixItems": [{"type": "boolean"}] * 3, "items": False}
    assert bounded_schema(asked) == asked | {"maxItems": 3}
    grammar_of(bounded_schema(asked))


def test_a_format_that_nobody_knows_bounds_no_string() -> None:
    said = {"type": "string", "format": "password"}
    assert bounded_schema(said) == said | {"maxLength": MOST_CHARS}


def test_counts_are_whole_numbers_however_they_are_written() -> None:
    text, items = {"type": "string", "minLength": 40.0}, {"type": "array", "items": {"enum": [1.0]}, "maxItems": 3.0}
    assert str(bounded_schema(text)) == str({"type": "string", "minLength": 40, "maxLength": 40})
    assert str(bounded_schema(items)) == str({"type": "array", "items": {"enum": [1.0]}, "maxItems": 3})
    assert bounded_schema({"type": "string", "minLength": 0.5})["minLength"] == 0.5


def test_what_a_client_says_holds() -> None:
    for said in (
        {"type": "string", "format": "date"},
        {"type": "string", "format": "date-time", "enum": ["2026-11-27T08:30:00.5Z"]},
        {"type": "string", "format": "uri", "maxLength": 80},
        {"type": "string", "maxLength": 500},
        {"type": "string", "pattern": "a+"},
        {"type": "integer", "minimum": 0},
        {"type": "array", "maxItems": 9},
        {"enum": [{"type": "string"}]},
        {"const": {"type": "string"}},
    ):
        assert bounded_schema(said) == said


def test_any_object_has_something_in_it_and_tags_are_bounded_too() -> None:
    asked = bounded(StructuredOutputsParams(json_object=True))
    assert asked.json_object is None and asked.json["required"] == ["answer"]
    tag = {"type": "structural_tag", "format": {"type": "json_schema", "json_schema": {"type": "string"}}}
    found = json.loads(str(bounded(StructuredOutputsParams(structural_tag=json.dumps(tag))).structural_tag))
    assert found["format"]["json_schema"]["maxLength"] == MOST_CHARS


@pytest.mark.parametrize(
    "wrong",
    ["{", {"type": "string", "minLength": "3"}, {"type": "array", "minItems": None}, {"type": "array", "minItems": {}}],
)
def test_what_is_no_schema_is_for_vllm_to_refuse(wrong: object) -> None:
    unread = StructuredOutputsParams(json=wrong)
    assert bounded(unread) is unread
