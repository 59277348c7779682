"""The laws of agents: turns in order, prompts that grow by what was said, tools that take their time."""

from itertools import groupby, pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from serving.scenario.scenario import BUNDLED_MODEL, Scenario
from serving.simulation.play import play
from serving.workload import Ask, Source, WorkloadError, load_workload
from serving.workload.ask import CALL, OFFER, TOOL, block_hashes
from serving.workload.spec import workload_of
from serving.workload.table import WorkloadTable
from serving.workload.tools import FIRST_TOKENS, TOOLS, prompt_tokens
from tests.examples import examples
from tests.serving.workload.files import served

UNIFORM = {"kind": "uniform", "min": 1, "max": 5}
AGENTS = {"calls": UNIFORM, "call": 12, "result": {"kind": "uniform", "min": 3, "max": 90}, "tool_s": 2.0, "tools": 2}
BASE = {
    "arrivals": {"kind": "poisson", "rate_per_s": 10},
    "requests": 80,
    "prompt": {"kind": "uniform", "min": 5, "max": 50},
    "output": {"kind": "exponential", "mean": 20},
}


def source(seed: int = 0, **tables: object) -> Source:
    return Source(workload_of(WorkloadTable({**BASE, **tables}, Path("w.toml"))), seed)


def by_session(done: list[tuple[Ask, float]]) -> list[list[tuple[Ask, float]]]:
    ordered = sorted(done, key=lambda each: (each[0].session, each[0].turn))
    return [list(group) for _, group in groupby(ordered, key=lambda each: each[0].session)]


agents = st.fixed_dictionaries(
    {
        "calls": st.one_of(st.integers(1, 5), st.just(UNIFORM)),
        "call": st.integers(1, 60),
        "result": st.one_of(st.integers(1, 90), st.just({"kind": "exponential", "mean": 30})),
        "tool_s": st.floats(0, 20),
        "tools": st.integers(1, len(TOOLS)),
    }
)
sessions = st.fixed_dictionaries({"turns": st.integers(1, 3), "think_s": st.floats(0, 30)})
arrivals = st.sampled_from([BASE["arrivals"], {"kind": "closed", "users": 4, "think_s": 1}])


@examples(50)
@given(arrivals, agents, sessions, st.integers(0, 99), st.floats(0.01, 9), st.booleans())
def test_turns_come_in_order_and_prompts_grow_by_what_was_said(arrivals, agents, sessions, seed, service_s, system):
    more = {"system": {"tokens": 30}} if system else {}
    done = served(source(seed, arrivals=arrivals, agents=agents, sessions=sessions, **more), service_s)
    assert len(done) == BASE["requests"]
    for session in by_session(done):
        first = session[0][0]
        assert first.prompt[0].role == OFFER and first.prompt[0].tokens == prompt_tokens(agents["tools"])
        assert first.prompt[-1].role == "user" and len(first.prompt) == 2 + system
        for (before, ended_s), (ask, _) in pairwise(session):
            assert ask.turn == before.turn + 1
            *history, reply, said = ask.prompt
            assert tuple(history) == before.prompt
            # What was said in answer, and what came then: by a tool after a call, by the user after an answer.
            assert (reply.role, reply.tokens) == (CALL if before.calls else "assistant", before.output_tokens)
            assert said.role == (TOOL if before.calls else "user")
            assert ask.prompt_tokens == before.prompt_tokens + before.output_tokens + said.tokens
            waited_s = agents["tool_s"] if before.calls else sessions["think_s"]
            assert ask.arrival_s == pytest.approx(ended_s + waited_s)
        assert all(ask.output_tokens == agents["call"] for ask, _ in session if ask.calls)


def test_an_agent_calls_as_often_as_it_is_to_and_then_answers() -> None:
    for calls in (1, 4):
        done = served(source(agents={**AGENTS, "calls": calls}, sessions={"turns": 2}, requests=2 * 10 * (calls + 1)))
        for session in by_session(done):
            assert [ask.calls for ask, _ in session] == [*[True] * calls, False] * 2


def test_agents_change_nothing_of_what_users_do() -> None:
    plain, working = served(source()), served(source(agents=AGENTS, requests=400))
    tasks = {ask.session: ask for ask, _ in working if not ask.turn}
    answers = {session[-1][0].session: session[-1][0] for session in by_session(working)}
    for ask, _ in plain[:40]:
        assert (tasks[ask.session].prompt[1:], tasks[ask.session].arrival_s) == (ask.prompt, ask.arrival_s)
        assert answers[ask.session].output_tokens == ask.output_tokens


def test_a_prefix_cache_finds_all_that_was_said_before() -> None:
    session = by_session(served(source(agents={**AGENTS, "calls": 4})))[0]
    for (before, _), (ask, _) in pairwise(session):
        known = block_hashes(before.prompt, 16)
        assert block_hashes(ask.prompt, 16)[: len(known)] == known
    others = by_session(served(source(agents=AGENTS, prompt=40)))[:2]
    one, other = (block_hashes(each[0][0].prompt, 16) for each in others)
    shared = prompt_tokens(AGENTS["tools"]) // 16
    assert one[:shared] == other[:shared] and one[shared] != other[shared]


def test_a_session_that_grew_too_long_ends() -> None:
    most = prompt_tokens(2) + 200
    done = served(source(agents={**AGENTS, "calls": 9}, sessions={"max_tokens": most}))
    assert max(ask.prompt_tokens + ask.output_tokens for ask, _ in done) <= most
    assert {len(session) for session in by_session(done)} - {10}


@pytest.mark.parametrize("prefix_caching", [True, False])
def test_in_virtual_time_a_tool_takes_its_time_after_its_call(prefix_caching: bool) -> None:
    workload = workload_of(WorkloadTable({**BASE, "agents": AGENTS, "requests": 60}, Path("w.toml")))
    outcomes, records = play(workload, Scenario(prefix_caching=prefix_caching))
    assert len(outcomes) == 60
    ended = {outcome.request.id: outcome for outcome in outcomes}
    followed = 0
    for outcome in outcomes:
        session, turn = map(int, outcome.request.id.split("-"))
        if turn:
            before = ended[f"{session}-{turn - 1}"]
            assert outcome.request.arrival_s >= before.last_s + 2.0 - 1e-9
            followed += 1
    assert followed > 20
    assert (sum(record.cached_tokens for record in records) > 0) == prefix_caching


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[agents]\nresult = 5\ntool_s = 1", ["w.toml, line", "`agents.calls` is missing", "whole number"]),
        ("[agents]\ncalls = 0\nresult = 5\ntool_s = 1", ["w.toml, line 8", "`agents.calls` is 0"]),
        ("[agents]\ncalls = 2\nresult = 5\ntool_s = -1", ["w.toml, line 10", "`agents.tool_s` is -1", "at least 0"]),
        ("[agents]\ncalls = 2\nresult = 5\ntool_s = 1\ntools = 9", ["`agents.tools` is 9", "from 1 to 8"]),
        (
            "[agents]\ncalls = 2\nresults = 5\ntool_s = 1",
            ["w.toml, line 7", "`agents.result` is missing", "(is `results` it?)"],
        ),
        ("[agents]\ncalls = 2\nresult = 5\ntool_s = 1\ntols = 2", ["no key `tols`", "did you mean `tools`"]),
        ("[agents]\ncalls = { kind = 'uniform', min = 3 }\nresult = 5\ntool_s = 1", ["line 8", "`agents.calls.max`"]),
    ],
)
def test_what_is_wrong_is_told_with_file_and_key(tmp_path: Path, text: str, words: list[str]) -> None:
    path = tmp_path / "w.toml"
    path.write_text(f"requests = 9\nprompt = 9\noutput = 9\n[arrivals]\nkind = 'constant'\nrate_per_s = 1\n{text}\n")
    with pytest.raises(WorkloadError) as caught:
        load_workload(path)
    assert all(word in str(caught.value) for word in words), caught.value


def test_a_trace_has_no_agents(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,5,5\n")
    path = tmp_path / "w.toml"
    path.write_text('arrivals = { kind = "trace" }\nagents = { calls = 1 }\n[trace]\nfile = "t.csv"\n')
    with pytest.raises(WorkloadError, match="`agents` is set, and `trace` too"):
        load_workload(path)


def test_tools_are_as_many_tokens_as_they_say() -> None:
    tokenizer = PreTrainedTokenizerFast.from_pretrained(BUNDLED_MODEL)

    def count(tools: int) -> int:
        offered = [{"type": "function", "function": tool.function} for tool in TOOLS[:tools]] or None
        told = tokenizer.apply_chat_template([{"role": "user", "content": "x"}], tools=offered, tokenize=True)
        return len(told["input_ids"])

    none = count(0)
    assert [count(tools) - none for tools in range(1, 9)] == [prompt_tokens(tools) for tools in range(1, 9)]
    assert FIRST_TOKENS > 0
