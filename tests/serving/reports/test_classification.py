"""`foreserve classify`: does it print what it promises, and refuse what it can't use?"""

import io
import json
import sys

import pytest

from serving.cli import main
from serving.topics.names import NAMES

LINES = (
    "legal\tcan my boss fire me for being pregnant\ncs\twhy is my docker build so slow\nmath\tdie kurve\tist steil\n"
)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.tsv"
    path.write_text(LINES, encoding="utf-8")
    return path


def run(*argv):
    args = main.make_parser().parse_args(["classify", *map(str, argv)])
    return int(args.run(args))


def test_json_has_accuracy_confusion_latencies_and_a_prediction_for_each_line(file, capsys):
    assert run(file, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert set(printed) == {"accuracy", "confusion", "latency_ms", "predictions"}
    predictions = printed["predictions"]
    assert [(p["line"], p["topic"], p["prompt"]) for p in predictions] == [
        (i, *line.split("\t", 1)) for i, line in enumerate(LINES.splitlines(), 1)
    ]
    assert all(p["predicted"] in NAMES and 1 / len(NAMES) <= p["confidence"] <= 1 for p in predictions)
    right = sum(p["topic"] == p["predicted"] for p in predictions)
    assert printed["accuracy"] == pytest.approx(right / 3, abs=1e-4)
    assert tuple(printed["confusion"]) == NAMES
    assert all(tuple(row) == NAMES for row in printed["confusion"].values())
    for p in predictions:
        assert printed["confusion"][p["topic"]][p["predicted"]] >= 1
    assert sum(map(sum, (row.values() for row in printed["confusion"].values()))) == 3
    assert 0 < printed["latency_ms"]["p50"] <= printed["latency_ms"]["p99"]


def test_the_table_names_every_topic_and_what_was_right(file, capsys):
    assert run(file) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in NAMES)
    assert "3 prompts" in printed and "ms at the median" in printed


def test_a_dash_is_stdin(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"other\thello\n")))
    assert run("-", "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["predictions"]) == 1


@pytest.mark.parametrize(
    "content, said", [("cs no tab", "line 1: there is no tab"), ("poetry\tx", "there is no topic 'poetry'")]
)
def test_errors_are_sentences_and_end_it_with_2(tmp_path, monkeypatch, capsys, content, said):
    path = tmp_path / "mine.tsv"
    path.write_text(content)
    monkeypatch.setattr(sys, "argv", ["foreserve", "classify", str(path), "--json"])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("foreserve classify: ") and said in err
