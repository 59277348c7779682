"""Do agents call tools for real, and go on from what was called and told?"""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.load.options import OptionError
from serving.load.report import Report
from serving.load.tool_calls import call_of, offered, stand_in
from serving.workload.tools import TOOLS
from tests.serving.load.grpc_stand_in import GrpcStandIn
from tests.serving.load.openai_stand_in import StandIn
from tests.serving.load.test_load_run import load, shown

AGENTS = """
requests = {requests}
prompt = 20
output = 3
[arrivals]
kind = "closed"
users = 1
[agents]
calls = 2
call = 30
result = 7
tool_s = 0.05
tools = 2
"""


def run(folder: Path, server: StandIn | GrpcStandIn, requests: int = 6, **options: Any) -> Report:
    path = folder / "agents.toml"
    path.write_text(AGENTS.format(requests=requests))
    # What a workload file says, options cannot.
    unsaid = {"rate_per_s": 4.0, "num_requests": None, "input_len": 128, "output_len": 64}
    return load(server, **{**unsaid, "workload": path, "endpoint": "chat", "model": "calls", **options})


def roles(asked: dict[str, Any]) -> list[str]:
    return [message["role"] for message in asked["messages"]]


def test_an_agent_calls_tells_and_answers(tmp_path: Path) -> None:
    report = run(tmp_path, server := StandIn(), requests=2)
    first, second = server.seen
    assert first["tools"] == second["tools"] == offered(2) and len(first["tools"]) == 2
    assert first["tool_choice"] == second["tool_choice"] == "required" and first["parallel_tool_calls"] is False
    # A call ends where its JSON does.
    assert first["max_tokens"] == 128 and "ignore_eos" not in first and "min_tokens" not in first
    assert roles(first) == ["user"] and roles(second) == ["user", "assistant", "tool"]
    assert second["messages"][0] == first["messages"][0]
    (call,) = second["messages"][1]["tool_calls"]
    assert call["id"] == second["messages"][2]["tool_call_id"] == "id-1"
    assert call["function"] == {"name": "search", "arguments": '{"query": "1", "most": 2}'}
    assert len(second["messages"][2]["content"].split()) == 7
    assert report.to_json()["tool_calls"] == {"asked": 2, "made": 2}


def test_one_that_was_cut_off_is_counted_and_another_stands_in(tmp_path: Path) -> None:
    report = run(tmp_path, server := StandIn())
    assert [asked["tool_choice"] for asked in server.seen] == ["required", "required", "none"] * 2
    assert server.seen[2]["ignore_eos"] and server.seen[2]["max_tokens"] == 3
    assert [roles(asked)[-1] for asked in server.seen] == ["user", "tool", "tool"] * 2
    assert report.to_json()["tool_calls"] == {"asked": 4, "made": 3}  # The fourth request was cut off.
    calls = [asked["messages"][1]["tool_calls"][0]["function"] for asked in server.seen[2::3]]
    assert [call["arguments"] for call in calls] == ['{"query": "1", "most": 2}', "{}"]
    # Of a server whose model never calls, answers are text, and the agents' load is what it was.
    report = run(tmp_path, server := StandIn(), model="good")
    assert report.to_json()["tool_calls"] == {"asked": 4, "made": 0}
    assert "Tools: 0 of 4 answers that were to call one did" in shown(report)
    (call,) = server.seen[1]["messages"][1]["tool_calls"]
    assert call["function"] == {"name": TOOLS[0].name, "arguments": "{}"}
    assert [roles(asked)[-1] for asked in server.seen] == ["user", "tool", "tool"] * 2


def test_over_grpc_the_same_is_sent(tmp_path: Path) -> None:
    run(tmp_path, server := GrpcStandIn(), requests=3, model="good")
    asked = server.seen[1]
    assert [tool.function.name for tool in asked.tools] == [tool.name for tool in TOOLS[:2]]
    assert [message.role for message in asked.messages] == ["user", "assistant", "tool"]


def test_agents_need_chats(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"agents.toml has `agents`, which call tools: they need --endpoint chat"):
        run(tmp_path, StandIn(), endpoint="completions")


@given(
    st.dictionaries(st.text(min_size=1, max_size=5), st.integers()),
    st.lists(st.integers(1, 9), max_size=9),
    st.sampled_from(["search", "add"]),
)
def test_a_call_is_read_however_it_is_cut(arguments: dict[str, int], cuts: list[int], name: str) -> None:
    text, parts = json.dumps(arguments), [{"index": 0, "id": "a", "function": {"name": name}}]
    for cut in cuts:
        parts.append({"index": 0, "function": {"arguments": text[:cut]}})
        text = text[cut:]
    assert call_of(parts) is None or not text
    parts.append({"index": 0, "id": "", "function": {"arguments": text}})
    other = {"index": 1, "id": "b", "function": {"name": "other", "arguments": "{}"}}
    call = call_of([*parts, other])
    assert call is not None and (call.id, call.name, json.loads(call.arguments)) == ("a", name, arguments)


def test_what_is_no_call_is_none() -> None:
    assert call_of([]) is None and call_of([{"index": 0, "id": "a", "function": None}]) is None
    assert call_of([{"id": "a", "function": {"name": "x", "arguments": "[]"}}]) is None
    for part in (None, 3, {"function": {"arguments": {"query": "a"}}}, {"id": 7, "function": {"name": "x"}}):
        assert call_of([part]) is None
    assert stand_in(3).message["tool_calls"][0]["id"] == "call-3"
