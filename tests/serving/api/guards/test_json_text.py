"""JSON from clients: what is refused before vLLM's server sees it, in a sentence, at little cost."""

import json
import time

import pytest

from serving.api.guards.json_text import MOST_DEPTH, MOST_OBJECTS, BadJson, count_objects, depth, parse

MOST = 1 << 16


def refusal(body: bytes) -> BadJson:
    with pytest.raises(BadJson) as caught:
        parse(body, MOST)
    return caught.value


def test_what_is_json_is_parsed() -> None:
    assert parse(b'{"a": [1, "\\ud83d\\ude00"]}', MOST) == {"a": [1, "😀"]}
    assert parse("é".join(['{"a": "', '"}']).encode(), MOST) == {"a": "é"}


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
