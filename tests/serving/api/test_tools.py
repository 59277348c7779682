"""Do tools and structured output work with the bundled model, as a client of OpenAI's and an agent use them?"""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from serving.lab.training.tokenizer import CHAT_TEMPLATE
from serving.process.server_process import ServerProcess
from serving.scenario.scenario import BUNDLED

WEATHER = {"city": {"type": "string"}, "unit": {"enum": ["C", "F"]}}
SUM = {"a": {"type": "integer"}, "b": {"type": "integer"}}
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "people": {"type": "integer"}, "tags": {"type": "array", "items": {}}},
    "required": ["city", "people"],
    "additionalProperties": False,
}
ASK = [{"role": "user", "content": "What is the weather in Paris?"}]
MOST = 400


def tool(name: str, **fields: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": fields, "required": list(fields)}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}


TOOLS = [tool("weather", **WEATHER), tool("add", **SUM), tool("clock")]
FIELDS = {"weather": set(WEATHER), "add": set(SUM), "clock": set()}


@pytest.fixture(scope="session")
def agent(emulator: ServerProcess) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{emulator.http_url}/v1", api_key="none", max_retries=0)


def chat(agent: openai.OpenAI, messages: Any = ASK, max_tokens: int = MOST, **said: Any) -> Any:
    return agent.chat.completions.create(model="qwen3-30b-a3b", messages=messages, max_tokens=max_tokens, **said)


def assert_called(calls: Any) -> None:
    assert calls
    for call in calls:
        assert set(json.loads(call.function.arguments)) == FIELDS[call.function.name]


@pytest.mark.parametrize("temperature", [0, 1])
def test_a_tool_is_called_if_it_may_or_must_be(agent: openai.OpenAI, temperature: float) -> None:
    for choice in ("auto", "required"):
        answer = chat(agent, tools=TOOLS, tool_choice=choice, temperature=temperature).choices[0]
        assert answer.finish_reason == "tool_calls" and not answer.message.content
        assert_called(answer.message.tool_calls)
    named = {"type": "function", "function": {"name": "add"}}
    (call,) = chat(agent, tools=TOOLS, tool_choice=named, temperature=temperature).choices[0].message.tool_calls
    assert call.function.name == "add"
    assert_called([call])
    none = chat(agent, tools=TOOLS, tool_choice="none", temperature=temperature).choices[0].message
    assert none.content and not none.tool_calls


def test_responses_call_a_function_for_what_a_user_has_said_and_answer_after_its_result(agent: openai.OpenAI) -> None:
    functions: list[Any] = [{"type": "function", **each["function"], "strict": None} for each in TOOLS]
    asked: list[Any] = list(ASK)
    said: dict[str, Any] = {"model": "qwen3-30b-a3b", "tools": functions, "temperature": 0}
    (call, *_) = agent.responses.create(input=asked, max_output_tokens=MOST, **said).output
    assert call.type == "function_call" and set(json.loads(call.arguments)) == FIELDS[call.name]
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny, 21 degrees"}
    answer = agent.responses.create(input=[*asked, call.model_dump(), result], max_output_tokens=20, **said)
    assert [item.type for item in answer.output] == ["message"]


def test_messages_of_anthropics_call_a_tool_for_what_a_user_has_said_and_answer_after_its_result(
    emulator: ServerProcess,
) -> None:
    tools = [
        {"name": each["function"]["name"], "input_schema": each["function"]["parameters"], "description": "a tool"}
        for each in TOOLS
    ]

    def ask(messages: list[Any], most: int) -> Any:
        said = {"model": "qwen3-30b-a3b", "messages": messages, "tools": tools, "max_tokens": most, "temperature": 0}
        answer = httpx.post(f"{emulator.http_url}/v1/messages", json=said, timeout=120)
        assert answer.status_code == 200, answer.text
        return answer.json()

    called = ask(ASK, MOST)
    assert called["stop_reason"] == "tool_use"
    uses = [block for block in called["content"] if block["type"] == "tool_use"]
    assert uses and all(set(use["input"]) == FIELDS[use["name"]] for use in uses)
    results = [{"type": "tool_result", "tool_use_id": use["id"], "content": "sunny, 21 degrees"} for use in uses]
    told = ask([*ASK, {"role": "assistant", "content": uses}, {"role": "user", "content": results}], 20)
    assert [block["type"] for block in told["content"]] == ["text"]


def test_a_tool_that_a_message_of_anthropics_names_and_does_not_have_is_refused_in_a_sentence(
    emulator: ServerProcess,
) -> None:
    tools = [{"name": "weather", "input_schema": {"type": "object"}}]
    said = {"model": "qwen3-30b-a3b", "messages": ASK, "tools": tools, "max_tokens": 8}
    said["tool_choice"] = {"type": "tool", "name": "wether"}
    answer = httpx.post(f"{emulator.http_url}/v1/messages", json=said, timeout=60)
    assert answer.status_code == 400 and answer.json()["type"] == "error"
    assert answer.json()["error"]["message"].startswith(
        "`tool_choice` names 'wether', and `tools` has none of that name: it has weather."
    )


def test_calls_are_streamed(agent: openai.OpenAI) -> None:
    names: dict[int, str] = defaultdict(str)
    arguments: dict[int, str] = defaultdict(str)
    for chunk in chat(agent, tools=TOOLS, stream=True):
        for delta in (chunk.choices[0].delta.tool_calls or []) if chunk.choices else []:
            names[delta.index] += delta.function.name or ""
            arguments[delta.index] += delta.function.arguments or ""
    assert names and all(set(json.loads(arguments[index])) == FIELDS[name] for index, name in names.items())


CITY, NUMBER = {"type": "string"}, {"type": "integer"}
CALLS = {
    "What is the weather in Paris?": ("get_weather", {"city": "Paris"}),
    "Is it warm in Madrid?": ("get_weather", {"city": "Madrid"}),
    "Add 12 and 30.": ("add", {"a": 12, "b": 30}),
    "How much is 120 + 45?": ("add", {"a": 120, "b": 45}),
    "Tell me the time.": ("clock", {}),
}
OFFERED = [tool("get_weather", city=CITY), tool("add", a=NUMBER, b=NUMBER), tool("clock")]


@pytest.mark.parametrize("asked", CALLS)
def test_what_the_bundled_model_is_asked_for_is_what_it_calls(agent: openai.OpenAI, asked: str) -> None:
    """Questions and tools of kinds that it was taught: whoever guides it must not make it say something else."""
    name, arguments = CALLS[asked]
    messages = [{"role": "user", "content": asked}]
    choices: list[Any] = ["auto", "required", {"type": "function", "function": {"name": name}}]
    for choice in choices:
        message = chat(agent, messages, tools=OFFERED, tool_choice=choice, temperature=0).choices[0].message
        (call,) = message.tool_calls
        assert (call.function.name, json.loads(call.function.arguments)) == (name, arguments)
        assert not message.content
    functions: list[Any] = [{"type": "function", **each["function"], "strict": None} for each in OFFERED]
    for choice in choices[:2]:
        said = {"tools": functions, "tool_choice": choice, "temperature": 0, "max_output_tokens": MOST}
        (item,) = agent.responses.create(model="qwen3-30b-a3b", input=asked, **said).output
        assert item.type == "function_call"
        assert (item.name, json.loads(item.arguments)) == (name, arguments)


def test_a_format_of_text_says_nothing_of_a_call(agent: openai.OpenAI) -> None:
    said = chat(agent, tools=OFFERED, response_format={"type": "text"}, temperature=0).choices[0].message
    assert [json.loads(call.function.arguments) for call in said.tool_calls] == [{"city": "Paris"}]
    functions: list[Any] = [{"type": "function", **each["function"], "strict": None} for each in OFFERED]
    answer = agent.responses.create(
        model="qwen3-30b-a3b",
        tools=functions,
        temperature=0,
        input=ASK,
        text={"format": {"type": "text"}},
        max_output_tokens=MOST,
    )
    (call,) = answer.output
    assert call.type == "function_call" and json.loads(call.arguments) == {"city": "Paris"}


def test_a_choice_that_is_null_is_for_vllm(agent: openai.OpenAI) -> None:
    answer = chat(agent, tools=OFFERED, temperature=0, extra_body={"tool_choice": None}).choices[0]
    assert answer.finish_reason == "stop" and not answer.message.tool_calls


def test_json_has_the_numbers_and_the_names_that_were_said(agent: openai.OpenAI) -> None:
    """Of kinds that it was taught; of other names and keys so small a model gets a part."""
    fields = {"city": CITY, "people": NUMBER}
    schema = {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
    form = {"type": "json_schema", "json_schema": {"name": "table", "schema": schema}}
    asked = {
        ("Rome", 4): "Book a table for 4 people in Rome. Give me JSON with city and people.",
        ("Paris", 4): "Book a table for 4 people in Paris. Give me JSON with city and people.",
        ("Madrid", 6): "I need a table for 6 people in Madrid. Give it as JSON with city and people.",
        ("Oslo", 3): "Reserve a room in Oslo for 3 people. Answer as JSON.",
        ("Berlin", 5): "We are 5 people and want to eat in Berlin. Reply with JSON: city, people.",
    }
    said = []
    for words in asked.values():
        answer = chat(agent, [{"role": "user", "content": words}], response_format=form, temperature=0)
        said.append(json.loads(answer.choices[0].message.content))
    assert sum(one["people"] == people for one, (_, people) in zip(said, asked, strict=True)) >= 4
    assert sum(one["city"] == city for one, (city, _) in zip(said, asked, strict=True)) >= 4


def test_an_agent_loops_through_five_turns(agent: openai.OpenAI) -> None:
    messages: list[Any] = [{"role": "user", "content": "Plan a day in Paris."}]
    ends = []
    for turn in range(5):  # seeded, and short where it only talks: all five have to fit the model's context
        said = chat(agent, messages, 400 if turn % 2 == 0 else 40, tools=TOOLS, seed=turn, parallel_tool_calls=False)
        answer = said.choices[0]
        ends.append(answer.finish_reason)
        messages.append(answer.message.model_dump(exclude_none=True))
        for call in answer.message.tool_calls or []:
            messages.append({"role": "tool", "tool_call_id": call.id, "content": "sunny, 21 degrees"})
        if not answer.message.tool_calls:
            messages.append({"role": "user", "content": "And then?"})
    assert ends[::2] == ["tool_calls"] * 3 and "tool_calls" not in ends[1::2]


@pytest.mark.parametrize("temperature", [0, 1])
def test_structured_answers_parse(agent: openai.OpenAI, temperature: float) -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "city", "schema": SCHEMA}}
    for number in range(4):
        asked = [{"role": "user", "content": f"Describe city number {number} as JSON."}]
        for form, fields in (({"type": "json_object"}, {"answer"}), (schema, {"city", "people"})):
            answer = chat(agent, asked, response_format=form, temperature=temperature).choices[0]
            assert answer.finish_reason == "stop" and fields <= set(json.loads(answer.message.content))


@pytest.mark.parametrize("name", ["foreserve-moe", "foreserve-tiny"])
def test_bundled_models_write_chats_as_training_does(name: str) -> None:
    assert Path(BUNDLED, name, "chat_template.jinja").read_text() == CHAT_TEMPLATE


def test_a_tool_whose_schema_cannot_be_followed_is_refused_with_the_reason(agent: openai.OpenAI) -> None:
    wrong = {"type": "object", "properties": {"a": {"type": "array", "items": [{"type": "string"}]}}}
    with pytest.raises(openai.BadRequestError, match=r"`tools` .* items must be a boolean or an object"):
        chat(agent, tools=[{"type": "function", "function": {"name": "say", "parameters": wrong}}])


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "format": "date-time"},
        {"type": "string", "format": "password"},
        {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
    ],
    ids=["endless", "unknown", "set"],
)
def test_a_call_ends_whatever_its_schema_leaves_open(agent: openai.OpenAI, schema: dict[str, Any]) -> None:
    arguments = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    said = chat(agent, tools=[{"type": "function", "function": {"name": "say", "parameters": arguments}}])
    (choice,) = said.choices
    assert choice.finish_reason == "tool_calls"
    assert json.loads(choice.message.tool_calls[0].function.arguments).keys() == {"a"}


PARTS = {
    "$defs": {"place": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}},
    "allOf": [{"$ref": "#/$defs/place"}, {"properties": {"days": {"type": "integer"}}, "required": ["days"]}],
    "required": ["note"],
}


def test_an_answer_is_an_instance_of_all_parts_of_its_schema(agent: openai.OpenAI) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "trip", "schema": PARTS}}
    answer = json.loads(chat(agent, response_format=form).choices[0].message.content)
    assert answer.keys() == {"city", "days", "note"} and isinstance(answer["days"], int)
