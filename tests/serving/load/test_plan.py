"""Runs of a workload file against stand-ins: what is sent, in what order, with which headers; and what is refused."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from serving.load.options import LoadOptions, OptionError
from serving.load.report import Report
from serving.load.run import run_load
from serving.workload import Source, load_workload
from serving.workload.virtual import seed_of
from tests.serving.cli.test_load_arguments import parsed
from tests.serving.load.grpc_stand_in import GrpcStandIn
from tests.serving.load.openai_stand_in import StandIn
from tests.serving.load.test_load_command import command
from tests.serving.load.test_load_run import shown
from tests.serving.workload.files import served
from tests.serving.workload.test_traces import SAMPLES

CHAT = """
requests = 8
[arrivals]
kind = "closed"
users = 2
[prompt]
kind = "uniform"
min = 4
max = 20
[output]
kind = "constant"
value = 3
[sessions]
turns = 2
[system]
tokens = 10
[topics]
cs = 1
[slo]
interactive = 1
[keys]
alice = 1
"""


@pytest.fixture
def file(tmp_path):
    def file(text: str = CHAT) -> Path:
        path = tmp_path / "workload.toml"
        path.write_text(text)
        return path

    return file


def load(server: StandIn | GrpcStandIn, workload: Path, **options) -> Report:
    async def run() -> Report:
        url = await server.start()
        try:
            return await run_load(LoadOptions(url=url, workload=workload, **options))
        finally:
            await server.stop()

    return asyncio.run(run())


@pytest.mark.parametrize("endpoint", ["chat", "completions"])
def test_sessions_say_what_was_said_before(file, endpoint):
    server = StandIn(0.01)
    report = load(server, file(), endpoint=endpoint)
    assert (report.summary.completed, report.summary.output_tokens) == (8, 24)
    if endpoint == "chat":
        prompts = [[(m["role"], m["content"]) for m in asked["messages"]] for asked in server.seen]
        assert {tuple(role for role, _ in prompt) for prompt in prompts} == {
            ("system", "user"),
            ("system", "user", "assistant", "user"),
        }
        assert len({prompt[0] for prompt in prompts}) == 1
    else:
        prompts = [asked["prompt"] for asked in server.seen]
    firsts = [prompt for prompt in prompts if any(longer[: len(prompt)] == prompt != longer for longer in prompts)]
    assert len(firsts) == 4  # Each first turn is what a second one begins with.


def test_users_wait_for_their_answers(file):
    report = load(StandIn(0.03), file())
    assert report.summary.duration_s > 0.8 * 4 * 3 * 0.03  # Each user has four, of three tokens, one after the other.


@pytest.mark.parametrize("server", [StandIn, GrpcStandIn])
def test_the_server_is_told_class_topic_and_key(file, server):
    stand_in = server()
    report = load(stand_in, file(), api_key="not this one")
    assert report.summary.completed == 8
    if server is StandIn:
        heads = [head.decode().lower() for head in stand_in.headers if head.startswith(b"POST")]
        assert len(heads) == 8
        for head in heads:
            assert "x-foreserve-slo: interactive\r\n" in head
            assert "x-foreserve-topic: cs\r\n" in head
            assert "authorization: bearer alice\r\n" in head
    else:
        said = {"x-foreserve-slo": "interactive", "x-foreserve-topic": "cs", "authorization": "Bearer alice"}
        assert all(said.items() <= metadata.items() for metadata in stand_in.metadata)


@pytest.mark.parametrize("server", [StandIn, GrpcStandIn])
def test_requests_that_are_to_be_told_apart_say_their_names_and_seeds(file, server):
    stand_in = server()
    report = load(stand_in, file(), told=True)
    source = Source(load_workload(file()))
    asks = {ask.id: seed_of(ask, source.seed) for ask, _ in served(source)}
    assert sorted(times.name for times in report.all_times) == sorted(asks)
    if server is StandIn:
        seeds = [asked["seed"] for asked in stand_in.seen]
        heads = [head.decode() for head in stand_in.headers if head.startswith(b"POST")]
        names = [re.search(r"x-request-id: (\S+)", head).group(1) for head in heads]
    else:
        seeds, names = (
            [int(asked.seed) for asked in stand_in.seen],
            [each["x-request-id"] for each in stand_in.metadata],
        )
    assert dict(zip(names, seeds, strict=True)) == asks
    other = StandIn()
    load(other, file())
    assert not any("seed" in asked for asked in other.seen)
    assert not any(b"x-request-id" in head for head in other.headers)


def test_a_topic_may_be_left_for_the_server_to_find_out(file):
    server = StandIn()
    load(server, file("tell_topic = false\n" + CHAT))
    assert not any(b"x-foreserve-topic" in head for head in server.headers)


def test_the_report_has_figures_by_class(file):
    report = load(StandIn(), file(CHAT.replace("interactive = 1", "interactive = 1\nbatch = 1")))
    classes = report.to_json()["slo_classes"]
    assert set(classes) == {"interactive", "batch"}
    assert sum(each["completed"] for each in classes.values()) == 8
    assert classes["batch"]["ttft_s"]["count"] == classes["batch"]["completed"]
    assert "SLO class" in shown(report) and "interactive" in shown(report)


def test_an_open_loop_comes_when_the_file_says(file):
    server = StandIn(0.2)
    text = CHAT.replace('kind = "closed"\nusers = 2', 'kind = "constant"\nrate_per_s = 20').replace("turns = 2", "")
    report = load(server, file(text))
    assert report.summary.completed == 8
    assert report.summary.duration_s < 3  # One after the other would take 5 s.


def test_a_name_that_no_header_can_carry_is_told_before_anything_is_sent(file):
    server = StandIn()
    with pytest.raises(OptionError, match=r"'a\\nb' cannot be sent"):
        load(server, file(CHAT.replace("alice = 1", '"a\\nb" = 1')))
    assert not server.seen


def test_users_do_not_hammer_a_server_that_turns_them_away(file):
    report = load(StandIn(), file(), model="full", duration_s=2.5)
    assert report.summary.completed == 0
    assert 2 <= report.summary.failed <= 6  # Two users at 0, 1 and 2 s, or later on a busy machine.


def test_n_duration_and_seed_count_instead_of_the_files(file):
    server = StandIn()
    assert load(server, file(), num_requests=3, seed=1).summary.completed == 3
    other = StandIn()
    load(other, file(), num_requests=3, seed=2)
    assert [asked["prompt"] for asked in server.seen] != [asked["prompt"] for asked in other.seen]


def test_a_trace_is_replayed(file):
    text = f'[arrivals]\nkind = "trace"\n[trace]\nfile = "{SAMPLES / "own.csv"}"\nrate_scale = 10\n'
    server = StandIn()
    assert load(server, file(text)).summary.completed == 3
    assert [(len(asked["prompt"].split()), asked["max_tokens"]) for asked in server.seen] == [(20, 2), (10, 1), (30, 3)]


def test_a_trace_that_breaks_off_ends_the_run_and_is_told(file, tmp_path, monkeypatch):
    monkeypatch.setattr("serving.workload.plans.CHUNK", 2)
    (tmp_path / "t.csv").write_text("prompt_tokens,output_tokens\n5,2\n5,2\n5,2\nfive,2\n")
    # Instants still come 4,096 at a time, of which the third row has the first of the second lot.
    text = '[arrivals]\nkind = "constant"\nrate_per_s = 100000\n[trace]\nfile = "t.csv"\n'
    report = load(StandIn(), file(text))
    assert report.summary.completed == 3
    assert "t.csv, line 5: `prompt_tokens` is 'five'" in report.broken


@pytest.mark.parametrize(
    ("option", "value"),
    [("--rate", "4"), ("--arrivals", "poisson"), ("--input-len", "9"), ("--output-len", "9"), ("--range-ratio", "0")],
)
def test_an_option_that_the_file_speaks_for_is_refused(option, value):
    with pytest.raises(OptionError, match=f"{option} cannot go with --workload"):
        parsed("--workload", "w.toml", option, value)


def test_a_wrong_file_is_one_sentence_and_a_right_one_a_report(file):
    code, out, err = command("--workload", str(file(CHAT.replace("users = 2", "users = 0"))))
    assert (code, out) == (2, "")
    assert err.startswith("foreserve load: ") and "line 5: `arrivals.users` is 0" in err and err.count("\n") == 1
    code, out, err = command("--workload", str(file()), "--json", server=StandIn())
    assert (code, err) == (0, "")
    assert json.loads(out)["completed"] == 8


def test_a_wrong_row_of_a_trace_ends_the_run_with_what_was(file, tmp_path):
    rows = ["0,5,3,interactive", "0,5,3,interactive", "0,5,3,büro", "0,5,3,interactive"]
    (tmp_path / "trace.csv").write_text("\n".join(["arrival_s,prompt_tokens,output_tokens,slo", *rows]))
    closed = '[arrivals]\nkind = "closed"\nusers = 1\n[trace]\nfile = "trace.csv"\n'
    report = load(StandIn(), file(closed))
    assert report.summary.completed == 2 and "büro" in report.failure
