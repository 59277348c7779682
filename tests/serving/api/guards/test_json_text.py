"""JSON from clients: what is refused before vLLM's server sees it, in a sentence, at little cost."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.api.guards.json_text import MOST_DEPTH, MOST_OBJECTS, BadJson, count_objects, depth, parse

MOST = 1 << 16


def refusal(body: bytes) -> BadJson:
    with pytest.raises(BadJson) as caught:
        parse(body, MOST)
    return caught.value


def test_what_is_json_is_parsed() -> None:
    assert parse(b'{"a": [1, "\\ud83d\\ude00"]}', MOST) == {"a": [1, "😀"]}
    assert parse("é".join(['{"a": "', '"}']).encode(), MOST) == {"a": "é"}


NUMBERS = (
    *("0", "-0", "-0.0", "1E5", "1.0", "1e-400", "5e-324", "2.4703282292062328e-324", "9007199254740993.0", "1e308"),
    *("18446744073709551616", "-9223372036854775809", "1" * 300, "0.1000000000000000055511151231257827"),
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda values: st.lists(values) | st.dictionaries(st.text(), values),
)


@given(VALUES, st.booleans())
def test_what_is_taken_is_what_pythons_own_parser_makes_of_it(value: Any, ascii: bool) -> None:
    """So that whoever comes after us need not parse a body again: of the same types, too, as `repr` says."""
    text = json.dumps(value, ensure_ascii=ascii)
    assert repr(parse(text.encode(), MOST)) == repr(json.loads(text))


@pytest.mark.parametrize("text", [*NUMBERS, '{"a": 1, "b": 2, "a": 3}', r'"\u0000\/\ud83d\ude00"'])
def test_so_are_numbers_of_any_size_and_keys_that_are_there_twice(text: str) -> None:
    assert repr(parse(text.encode(), MOST)) == repr(json.loads(text))


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (rb'{"request_id": "\ud800"}', "request_id"),
        (rb'{"messages": [{"content": "a\uDFFFb"}]}', "messages.0.content"),
        (rb'{"vllm_xargs": {"\udc00": 1}}', r"vllm_xargs.\udc00"),
        (rb'{"ok": "\ud83d\ude00", "stop": ["\ude00\ud83d"]}', "stop.0"),
    ],
)
def test_half_a_character_is_refused_by_the_name_of_its_field(body: bytes, field: str) -> None:
    error = refusal(body)
    assert error.field == field and f"`{field}`" in str(error)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"{'a': 1}", b'{"a": NaN}', b'{"a": "\xff"}', '{"a": 1}'.encode("utf-16"), b'{"a": 1e999}']
)
def test_what_is_no_json_is_refused(body: bytes) -> None:
    assert "not JSON" in str(refusal(body))


def test_depth_is_bounded() -> None:
    deepest = b"[" * MOST_DEPTH + b"]" * MOST_DEPTH
    assert depth(parse(deepest, MOST)) == MOST_DEPTH
    for body in (b"[" + deepest + b"]", b"[" * 50_000, b'{"a":' * 20_000):
        assert "levels deep" in str(refusal(body)) or "not JSON" in str(refusal(body))
    # Brackets in a text are no levels.
    assert parse(json.dumps({"prompt": "[" * 1000}).encode(), MOST)


def test_as_many_values_as_make_vllm_slow_are_refused_at_once() -> None:
    body = b"[" + b"[]," * 500_000 + b"1]"
    began = time.process_time()
    assert "may have 65536" in str(refusal(body))
    assert time.process_time() - began < 0.5  # Parsing it takes seconds.


def test_objects_are_bounded_and_those_in_texts_are_none() -> None:
    assert count_objects({"a": [{}, {"b": {}}]}) == 4
    assert parse(json.dumps([{}] * MOST_OBJECTS).encode(), MOST)
    assert f"may have {MOST_OBJECTS}" in str(refusal(json.dumps([{}] * (MOST_OBJECTS + 1)).encode()))
    assert parse(json.dumps({"prompt": "{" * (MOST_OBJECTS + 1)}).encode(), MOST)
