"""Is guided JSON written as the bundled model has learnt it, and what is no schema left for vLLM to refuse?"""

import json
from typing import Any

import pytest
import xgrammar
from transformers import AutoTokenizer
from vllm.sampling_params import StructuredOutputsParams

from serving.api.tool_choice import call_tag
from serving.scenario.scenario import BUNDLED_MODEL
from serving.token_source.grammars.bounded_grammar import bounded
from serving.token_source.grammars.spaced_grammar import grammar_of, reason_against, spaced

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 9}, "said": {"type": "string"}, "n": {"type": "integer"}},
    "required": ["city", "said", "n"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def compiler() -> Any:
    tokenizer = AutoTokenizer.from_pretrained(BUNDLED_MODEL)
    return xgrammar.GrammarCompiler(xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=len(tokenizer)))


def takes(compiled: Any, text: str) -> bool:
    """Tell whether a grammar has a text, whole."""
    matcher = xgrammar.GrammarMatcher(compiled, terminate_without_stop_token=True)
    return matcher.accept_string(text) and matcher.is_terminated()


def test_json_is_as_python_writes_it_and_no_other_way(compiler: Any) -> None:
    grammar = compiler.compile_grammar(grammar_of(CITY))
    value = {"city": "a: b, c", "said": "<p>", "n": -3}
    assert takes(grammar, json.dumps(value))
    assert not takes(grammar, json.dumps(value, separators=(",", ":")))
    assert not takes(grammar, json.dumps(value, indent=1))
    assert not takes(grammar, json.dumps(value | {"city": "0123456789"}))


@pytest.mark.parametrize("length", [{}, {"maxLength": 9}, {"minLength": 1}], ids=["any", "longest", "least"])
def test_strings_hold_no_control_characters_whatever_their_length(compiler: Any, length: dict[str, int]) -> None:
    text = {"type": "string"} | length
    said = {"type": "object", "properties": {"said": text}, "required": ["said"], "additionalProperties": text}
    tag = spaced(StructuredOutputsParams(structural_tag=json.dumps(call_tag([("say", said)])))).structural_tag
    alone, called = compiler.compile_grammar(grammar_of(said)), compiler.compile_structural_tag(tag)

    def call(arguments: str) -> str:
        return f'<tool_call>{{"name": "say", "arguments": {arguments}}}</tool_call>'

    for said_text in ("plain", "\N{EM DASH} \x7f", "a: {b}"):
        answer = json.dumps({"said": said_text}, ensure_ascii=False)
        assert takes(alone, answer) and takes(called, call(answer)) and json.loads(answer)
    for code in range(0x20):
        answer = f'{{"said": "a{chr(code)}b"}}'
        assert not takes(alone, answer) and not takes(called, call(answer)), code
        assert not takes(alone, f'{{"said": "a", "b{chr(code)}": "c"}}'), code


def test_a_key_that_the_schema_does_not_name_cannot_end_a_call(compiler: Any) -> None:
    text = {"type": "string"}
    known = {"type": "object", "properties": {"-k": text, "zip": text}, "additionalProperties": True}
    tag = spaced(StructuredOutputsParams(structural_tag=json.dumps(call_tag([("say", known)])))).structural_tag
    grammar = compiler.compile_structural_tag(tag)

    def call(key: str) -> str:
        return f'<tool_call>{{"name": "say", "arguments": {{"{key}": 1}}}}</tool_call>'

    assert takes(grammar, call("other")) and takes(grammar, call("Key"))
    assert not takes(grammar, call("</tool_call>"))


def test_one_call_of_one_tool_is_made_and_its_strings_cannot_end_it(compiler: Any) -> None:
    tools = [("weather", CITY), ('cl"ock', None)]
    asked = spaced(StructuredOutputsParams(structural_tag=json.dumps(call_tag(tools))))
    grammar = compiler.compile_structural_tag(asked.structural_tag)

    def call(name: str, arguments: dict[str, Any]) -> str:
        return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"

    good = call("weather", {"city": "Rome", "said": "it's > 3", "n": 1})
    assert takes(grammar, good) and takes(grammar, call('cl"ock', {}))
    assert not takes(grammar, good + good) and not takes(grammar, "It is sunny.")
    assert not takes(grammar, call("weather", {"city": "</tool>", "said": "", "n": 1}))
    assert not takes(grammar, call("weather", {"city": "", "said": "</tool_call>", "n": 1}))
    assert not takes(grammar, call('cl"ock', {"city": "Rome", "said": "", "n": 1}))


@pytest.mark.parametrize(
    "ignored",
    [
        {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        {"type": "string", "format": "password"},
        {"type": "string", "pattern": "^[a-z, ]+$", "maxLength": 9},
        {"type": "integer", "multipleOf": 5},
    ],
    ids=["set", "format", "pattern and length", "multiples"],
)
def test_arguments_of_a_call_are_spaced_though_xgrammar_ignores_some_of_their_schema(
    compiler: Any, ignored: dict[str, Any]
) -> None:
    schema = {"type": "object", "properties": {"a": ignored}, "required": ["a"], "additionalProperties": False}
    tag = spaced(bounded(StructuredOutputsParams(structural_tag=json.dumps(call_tag([("say", schema)])))))
    grammar = compiler.compile_structural_tag(tag.structural_tag)
    value = {"array": ["x", "y"], "string": "x, y", "integer": 5}[ignored["type"]]
    call = {"name": "say", "arguments": {"a": value}}
    assert takes(grammar, f"<tool_call>{json.dumps(call)}</tool_call>")
    assert not takes(grammar, f"<tool_call>{json.dumps(call).replace(': ', ':  ')}</tool_call>")


def deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


@pytest.mark.parametrize(
    "wrong",
    [
        {"json": "{"},
        {"json": {"type": "strin"}},
        {"json": {"type": "integer", "multipleOf": 3}},
        {"json": deep(5000)},
        {"structural_tag": "{"},
        {"structural_tag": json.dumps({"type": "json_schema", "json_schema": {"$ref": "#/nowhere"}})},
    ],
    ids=["no JSON", "no type", "multiples", "deep", "no tag", "no such reference"],
)
def test_what_cannot_be_followed_is_for_vllm_to_refuse(wrong: dict[str, Any]) -> None:
    asked = StructuredOutputsParams(**wrong)
    assert spaced(asked) is asked


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "array", "items": [{"type": "string"}]}, "items must be a boolean or an object"),
        ({"type": "float"}, 'Unsupported type "float"'),
    ],
)
def test_why_a_call_cannot_be_guided_is_said_without_where_xgrammar_found_it(
    schema: dict[str, Any], words: str
) -> None:
    arguments = {"type": "object", "properties": {"a": schema}}
    assert reason_against(json.dumps(call_tag([("say", arguments)]))) == words
    assert reason_against(json.dumps(call_tag([("say", None)]))) == ""


def test_other_structured_output_stays_as_it_is() -> None:
    for asked in (StructuredOutputsParams(regex="a+"), StructuredOutputsParams(choice=["a", "b"])):
        assert spaced(asked) == asked
