"""Traces: samples of each format (made up here) are read, and replayed as asked; what is broken is told by its line."""

import json
from itertools import islice, pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.scenario.scenario import BUNDLED_MODEL
from serving.workload import Ask, Source, WorkloadError, plans
from serving.workload.ask import block_hashes
from serving.workload.spec import workload_of
from serving.workload.table import WorkloadTable
from serving.workload.traces import replay
from serving.workload.traces.sharegpt import estimate
from tests.serving.workload.files import served

EVENLY = {"kind": "constant", "rate_per_s": 1}
SAMPLES = Path(__file__).parent / "samples"
EXPECTED = {
    "azure_2023.csv": ("azure", [(0, 200, 40), (4.5, 500, 120), (5.0, 900, 60), (10.000001, 80, 20)]),
    "azure_2024.csv": ("azure", [(0, 2500, 6), (0.0125, 2000, 5), (2.5, 70, 15)]),
    "burstgpt.csv": ("burstgpt", [(0, 300, 20), (40, 1000, 200), (80.5, 1300, 190)]),
    "mooncake.jsonl": ("mooncake", [(0, 1200, 500), (3, 1500, 40), (4.5, 300, 7)]),
    "bailian.jsonl": ("bailian", [(0, 40, 20), (14.5, 90, 10)]),
    "own.csv": ("csv", [(0, 20, 2), (0.5, 10, 1), (1.5, 30, 3)]),
    "own.jsonl": ("jsonl", [(0, 20, 2), (0.5, 10, 1)]),
}


def replayed(file: str | Path, arrivals: dict | None = None, sessions: dict | None = None, **keys) -> Source:
    tables = {"arrivals": arrivals or {"kind": "trace"}, "trace": {"file": str(file)} | keys}
    return Source(workload_of(WorkloadTable(tables | ({"sessions": sessions} if sessions else {}), SAMPLES / "w.toml")))


def figures(asks: list[Ask]) -> list[tuple[float, int, int]]:
    return [(round(ask.arrival_s, 6), ask.prompt_tokens, ask.output_tokens) for ask in asks]


@pytest.mark.parametrize("file", EXPECTED)
def test_the_format_is_found_and_rows_come_by_their_time(file):
    format, expected = EXPECTED[file]
    assert figures(list(replayed(file))) == expected
    assert list(replayed(file, format=format)) == list(replayed(file))


def test_a_table_is_read_as_lines_are(tmp_path):
    rows = [json.loads(line) for line in (SAMPLES / "own.jsonl").read_text().splitlines()]
    columns = dict.fromkeys(name for row in rows for name in row)
    table = pa.table({name: [row.get(name) for row in rows] for name in columns})
    pq.write_table(table, tmp_path / "own.parquet")
    assert list(replayed(tmp_path / "own.parquet")) == list(replayed("own.jsonl"))


def test_a_trace_of_ones_own_says_of_whom_requests_are():
    assert [(ask.topic, ask.key) for ask in replayed("own.jsonl")] == [("cs", ""), ("", "alice")]
    assert [ask.slo for ask in replayed("own.csv")] == ["", "batch", "interactive"]


def test_spaces_beside_the_commas_of_a_csv_are_no_part_of_names(tmp_path):
    columns = "arrival_s, prompt_tokens, output_tokens, topic, slo, key"
    (tmp_path / "t.csv").write_text(f"{columns}\n0, 20, 2, cs, batch , alice\n1, 20, 2, , ,\n")
    asks = list(replayed(tmp_path / "t.csv"))
    assert [(ask.topic, ask.slo, ask.key) for ask in asks] == [("cs", "batch", "alice"), ("", "", "")]


@pytest.mark.parametrize(("file", "block_tokens", "shared"), [("mooncake.jsonl", 512, 2), ("bailian.jsonl", 16, 2)])
def test_what_has_equal_hash_ids_has_equal_blocks(file, block_tokens, shared):
    one, other, *_ = (block_hashes(ask.prompt, block_tokens) for ask in replayed(file))
    assert one[:shared] == other[:shared]
    assert not set(one[shared:]) & set(other[shared:])
    fine = [block_hashes(ask.prompt, 8) for ask in replayed(file)]
    assert fine[0][: shared * block_tokens // 8] == fine[1][: shared * block_tokens // 8]


def test_what_has_no_hash_id_is_the_requests_own(tmp_path):
    (tmp_path / "t.jsonl").write_text(
        '{"timestamp": 0, "input_length": 1000, "output_length": 5, "hash_ids": [1]}\n' * 2
        + '{"timestamp": 0, "input_length": 1000, "output_length": 5}\n'
    )
    one, other, none = replayed(tmp_path / "t.jsonl", format="mooncake")
    assert [segment.tokens for segment in one.prompt] == [512, 488]
    assert one.prompt[0] == other.prompt[0] and one.prompt[1].id != other.prompt[1].id
    assert [segment.tokens for segment in none.prompt] == [1000]


def test_conversations_are_sessions_whose_lengths_are_estimated():
    asks = [ask for ask, _ in served(replayed("sharegpt.json", EVENLY, {"think_s": 2}))]
    by_turn = {(ask.session, ask.turn): ask for ask in asks}
    assert list(by_turn) == [(0, 0), (1, 0), (0, 1)]
    assert [segment.tokens for segment in by_turn[0, 1].prompt] == [12, 6, 2]
    assert by_turn[0, 1].arrival_s == 3.0
    # A system prompt counts to what is asked first; what nobody answers is left out.
    assert by_turn[1, 0].prompt_tokens == estimate("Answer in one word, please") + estimate("什么是缓存") == 7 + 4


@pytest.mark.parametrize("counted", [{}, {"tokenizer": str(BUNDLED_MODEL / "tokenizer.json")}])
def test_an_emoji_that_was_cut_is_counted(tmp_path, counted):
    said = [{"from": "human", "value": "well \ud83d"}, {"from": "gpt", "value": "yes"}]
    (tmp_path / "t.json").write_text(json.dumps([{"conversations": said}]))
    (ask,) = replayed(tmp_path / "t.json", EVENLY, **counted)
    assert ask.prompt_tokens > 1


def test_conversations_are_counted_with_a_tokenizer_on_wish():
    asks = list(
        replayed(
            "sharegpt.json", {"kind": "constant", "rate_per_s": 1}, tokenizer=str(BUNDLED_MODEL / "tokenizer.json")
        )
    )
    assert asks[0].prompt_tokens == 15


def test_conversations_in_lines_and_messages_of_openai_are_the_same(tmp_path):
    items = json.loads((SAMPLES / "sharegpt.json").read_text())
    names = {"human": "user", "gpt": "assistant", "system": "system"}
    said = [[{"role": names[m["from"]], "content": m["value"]} for m in item["conversations"]] for item in items]
    (tmp_path / "t.jsonl").write_text("\n".join(json.dumps({"messages": messages}) for messages in said))
    assert list(replayed(tmp_path / "t.jsonl", EVENLY)) == list(replayed("sharegpt.json", EVENLY))


def test_a_long_list_is_read_piece_by_piece(tmp_path, monkeypatch):
    monkeypatch.setattr("serving.workload.traces.sharegpt.PIECE", 7)
    assert len(list(replayed("sharegpt.json", {"kind": "closed", "users": 9}))) == 2


@given(st.floats(0.1, 50))
def test_scaling_the_rate_divides_all_gaps(k):
    plain, scaled = ([ask.arrival_s for ask in replayed("azure_2023.csv", rate_scale=scale)] for scale in (1.0, k))
    assert [at * k for at in scaled] == pytest.approx(plain)


def test_a_rate_is_scaled_only_where_it_is_the_traces():
    with pytest.raises(WorkloadError, match=r"`trace\.rate_scale` is set, and `arrivals\.kind` is not 'trace'"):
        replayed("azure_2023.csv", EVENLY, rate_scale=2.0)


def test_a_window_is_cut_out_and_begins_at_0():
    assert figures(list(replayed("azure_2023.csv", from_s=4.75, to_s=10))) == [(0.25, 900, 60)]
    assert figures(list(replayed("azure_2023.csv", EVENLY, to_s=4.75))) == [(0, 200, 40), (1, 500, 120)]


def test_a_trace_is_repeated_without_a_gap_and_its_prefixes_are_new():
    looped = replayed("mooncake.jsonl", loop=True, to_s=6.0, rate_scale=2.0)
    asks = list(islice(looped, 7))
    assert [ask.arrival_s for ask in asks] == [0, 1.5, 2.25, 3, 4.5, 5.25, 6]
    ids = [{segment.id for segment in ask.prompt} for ask in asks]
    assert ids[0] & ids[1] and ids[3] & ids[4] and not ids[0] & ids[3]
    whole = [ask.arrival_s for ask in islice(replayed("mooncake.jsonl", loop=True), 6)]
    assert whole == [0, 3, 4.5, 6.75, 9.75, 11.25]  # A mean gap of 2.25 s after the last.


def test_lengths_are_clipped_on_wish():
    asks = list(replayed("azure_2023.csv", max_prompt_tokens=100, max_output_tokens=50))
    assert [(ask.prompt_tokens, ask.output_tokens) for ask in asks] == [(100, 40), (100, 50), (100, 50), (80, 20)]
    assert [ask.prompt_tokens for ask in replayed("mooncake.jsonl", max_prompt_tokens=600)] == [600, 600, 300]


def test_lengths_of_a_trace_can_arrive_in_another_way():
    asks = list(replayed("azure_2023.csv", {"kind": "steps", "steps": [[2, 1]], "cv": 0}))
    assert figures(asks) == [(0, 200, 40), (0.5, 500, 120)]
    assert len(served(replayed("azure_2023.csv", {"kind": "closed", "users": 2}))) == 4


def test_labels_hold_for_traces_and_may_drift(tmp_path):
    rows = "".join("5,5,\n" if place % 2 else "5,5,batch\n" for place in range(6000))
    (tmp_path / "t.csv").write_text("prompt_tokens,output_tokens,slo\n" + rows)
    drift = [{"at_s": 0, "interactive": 1}, {"at_s": 6000, "standard": 1}]
    tables = {"arrivals": EVENLY, "trace": {"file": "t.csv"}, "slo": drift}
    asks = list(Source(workload_of(WorkloadTable(tables, tmp_path / "w.toml"))))
    assert {ask.slo for ask in asks[::2]} == {"batch"}
    drawn = [ask.slo for ask in asks[1::2]]
    assert len(asks) == 6000 and drawn[:1000].count("interactive") > 800 and drawn[-1000:].count("standard") > 800


def test_rows_a_little_out_of_place_are_put_in_order_and_others_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr(replay, "OUT_OF_PLACE", 3)
    head = "arrival_s,prompt_tokens,output_tokens\n"
    (tmp_path / "t.csv").write_text(head + "".join(f"{at},1,1\n" for at in (3, 1, 2, 5, 4, 6, 9, 8, 7)))
    times = [ask.arrival_s for ask in replayed(tmp_path / "t.csv")]
    assert len(times) == 9 and all(one <= other for one, other in pairwise(times))
    (tmp_path / "t.csv").write_text(head + "".join(f"{at},1,1\n" for at in (1, 2, 3, 4, 5, 6, 0)))
    with pytest.raises(WorkloadError, match=r"t\.csv, line 8: this row is earlier than .*: sort the trace"):
        list(replayed(tmp_path / "t.csv"))


@pytest.mark.parametrize("arrivals", [{"kind": "trace"}, EVENLY])
@pytest.mark.parametrize("broken", range(1, 12))
def test_what_comes_before_a_broken_row_is_played_but_for_the_beginning(tmp_path, monkeypatch, arrivals, broken):
    monkeypatch.setattr(replay, "OUT_OF_PLACE", 3)
    monkeypatch.setattr(plans, "CHUNK", 4)
    rows = [f"{place},{'x' if place == broken else 1},1\n" for place in range(1, 12)]
    (tmp_path / "t.csv").write_text("arrival_s,prompt_tokens,output_tokens\n" + "".join(rows))
    played = 0
    with pytest.raises(WorkloadError, match=rf"t\.csv, line {broken + 1}: `prompt_tokens` is 'x'"):
        for _ in replayed(tmp_path / "t.csv", arrivals):
            played += 1
    assert played == (broken - 1 if broken > plans.CHUNK else 0)


AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
MOON = '{"timestamp": 0, "input_length": 5, "output_length": 5, "hash_ids": %s}'


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("t.csv", AZURE + "yesterday,1,1\n", ["line 2: `TIMESTAMP` is 'yesterday'", "2023-11-16"]),
        ("t.csv", AZURE + "2023-11-16 18:15:46,1,1\n2023-11-16 18:15:46,x,1\n", ["line 3: `ContextTokens` is 'x'"]),
        ("t.csv", AZURE + "2023-11-16 18:15:46,1\n", ["line 2: there are 2 columns, and the first line has 3"]),
        (
            "t.csv",
            AZURE.replace("Generated", "") + "1,1,1",
            ["line 1: there is no column `GeneratedTokens`", "ContextT"],
        ),
        ("t.csv", AZURE, ["t.csv (azure) has no requests"]),
        ("t.csv", "Timestamp,Request tokens,Response tokens\nnan,1,1", ["line 2: `Timestamp` is 'nan'", "a number"]),
        ("t.csv", "Timestamp,Request tokens,Response tokens\n1,1,-1", ["line 2: `Response tokens` is '-1'"]),
        ("t.csv", "a,b\n1,2\n", ["line 1: there is no column `prompt_tokens`; there are a, b"]),
        ("t.csv", "", ["line 1: there is no column `prompt_tokens`; there are none"]),
        ("t.csv", "prompt_tokens,output_tokens\n1,2\n", ["line 2: there is no time (format csv)", "`arrivals`"]),
        ("t.jsonl", MOON % "[1", ["line 1: this is no JSON"]),
        ("t.jsonl", MOON % "[1]" + "\n[]", ["line 2: this must be a JSON object"]),
        ("t.jsonl", MOON % '["a"]', ['line 1: `hash_ids` is ["a"]', "whole numbers"]),
        ("t.jsonl", '{"input_length": 5}', ["line 1: `timestamp` is None", "a number"]),
        (
            "t.jsonl",
            '{"timestamp": 1, "input_length": 2.5}',
            ["line 1: `input_length` is 2.5", "whole number"],
        ),
        ("t.jsonl", '{"prompt_tokens": 1, "arrival_s": 1}', ["line 1: `output_tokens` is None"]),
        ("t.json", '[{"conversations": []}, \n{"conversations": 3}]', ["line 2: `conversations` must be a list"]),
        ("t.json", '[{"conversations": []},\n\n {"conv', ["line 3: this is no list of conversations in JSON"]),
        ("t.json", "[1]", ["line 1: this must be a conversation"]),
        ("t.json", "[]", ["t.json (sharegpt) has no requests"]),
        ("t.json", '[{"conversations": ' + "[" * 100_000, ["line 1: this is no list of conversations in JSON"]),
        ("t.json", '[{"conversations": []},\n', ["line 2: the file ends here, and its list of conversations does not"]),
        ("t.json", '[{"conversations": []}]\n[{"conversations": []}]', ["line 2: more follows behind the list"]),
        ("t.csv", "arrival_s,prompt_tokens,output_tokens\n0,10000000000000,10\n", ["`prompt_tokens` is", "at most"]),
        (
            "t.csv",
            "arrival_s,prompt_tokens,output_tokens,topic\n0,1,2,cs\n1,1,2,maths\n",
            ["line 3: there is no topic 'maths' (did you mean `math`?)", "legal, humanities, cs"],
        ),
        ("t.parquet", "no table", ["Cannot read the trace", "t.parquet"]),
    ],
)
def test_what_is_broken_is_one_sentence_with_its_line(tmp_path, name, text, words):
    (tmp_path / name).write_text(text)
    with pytest.raises(WorkloadError) as caught:
        replayed(tmp_path / name, {"kind": "closed", "users": 1} if name == "t.json" else None)
    sentence = str(caught.value)
    assert sentence.endswith(".") and "\n" not in sentence
    for word in [name, *words]:
        assert word in sentence


def test_bytes_that_are_no_text_are_told_by_their_line(tmp_path):
    (tmp_path / "t.jsonl").write_bytes((MOON % "[1]").encode() + b'\n{"type": "caf\xe9"}')
    with pytest.raises(WorkloadError, match=r"t\.jsonl, line 2: this is no JSON"):
        list(replayed(tmp_path / "t.jsonl", format="mooncake"))
    (tmp_path / "t.jsonl").write_text('{"timestamp": 1%s, "input_length": 5}' % ("0" * 310))
    with pytest.raises(WorkloadError, match=r"line 1: `timestamp` is 10+: it must be a number"):
        list(replayed(tmp_path / "t.jsonl", format="mooncake"))


def test_hashes_that_are_bytes_are_told_by_their_row(tmp_path):
    columns = {"arrival_s": [0.0], "prompt_tokens": [5], "output_tokens": [5], "hash_ids": [[b"ab"]]}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    with pytest.raises(WorkloadError, match=r"line 1: `hash_ids` is .*ab.*: it must be a list of whole numbers"):
        list(replayed(tmp_path / "t.parquet"))


def test_conversations_have_no_times_of_their_own():
    with pytest.raises(WorkloadError, match=r"sharegpt\.json, line 2: there is no time \(format sharegpt\)"):
        replayed("sharegpt.json")


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"format": "orca"}, ["`trace.format` is 'orca'", "auto or azure"]),
        ({"rate_scale": 0}, ["`trace.rate_scale` is 0", "above 0"]),
        ({"from_s": 5, "to_s": 5}, ["`trace.to_s` is 5", "above `from_s`, 5"]),
        ({"loop": 1}, ["`trace.loop` is 1", "true or false"]),
        ({"tokenizer": "own.csv"}, ["`trace.tokenizer` is set", "azure"]),
        ({"block_tokens": 16}, ["`trace.block_tokens` is set", "azure", "jsonl and parquet"]),
        ({"from_s": 500}, ["azure_2023.csv (azure) has no requests from 500 s on"]),
    ],
)
def test_wrong_keys_are_told(keys, words):
    with pytest.raises(WorkloadError) as caught:
        replayed("azure_2023.csv", **keys)
    for word in words:
        assert word in str(caught.value)


def test_a_byte_order_mark_and_whole_numbers_with_a_point_are_read(tmp_path):
    (tmp_path / "t.jsonl").write_bytes(b"\xef\xbb\xbf" + (MOON % "[1]").encode())
    assert figures(list(replayed(tmp_path / "t.jsonl"))) == [(0, 5, 5)]
    (tmp_path / "t.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,10.0,7.0\n")
    assert figures(list(replayed(tmp_path / "t.csv"))) == [(0, 10, 7)]
