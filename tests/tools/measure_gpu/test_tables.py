"""Does the tool read the tables that ship, measure what they say, and write what `foreserve calibrate` reads?"""

import csv
from argparse import Namespace
from pathlib import Path

import pytest

import device_model.validation.measured as measured
from device_model.validation.measured.step_table import read_step_table
from tools.measure_gpu.__main__ import check_numbers
from tools.measure_gpu.engine import QWEN3, config_of, weight_bytes
from tools.measure_gpu.steps import prompt_of, room_of
from tools.measure_gpu.tables import (
    LOAD_COLUMNS,
    STEP_COLUMNS,
    Call,
    ServedCall,
    Step,
    TimedStep,
    read_load,
    read_steps,
    write_row,
)

TABLES = Path(measured.__file__).parent / "h100"
H100_ROOM_TOKENS = 178452


@pytest.mark.parametrize(("name", "steps"), [("popular", 25), ("even", 10)])
def test_the_steps_that_ship_can_be_asked_for_again(name: str, steps: int) -> None:
    found = read_steps(TABLES / f"{name}.csv")
    assert len(found) == steps and all(room_of(step) <= H100_ROOM_TOKENS for step in found)
    # The prompts, as they were.
    prompts = {prompt_of(step) for step in found if step.context}
    assert all(min(abs(prompt - round_one) for round_one in (128, 1024, 8192, 32000)) <= 3 for prompt in prompts)


@pytest.mark.parametrize("rate", [2, 8, 20])
def test_the_loads_that_ship_can_be_served_again(rate: int, tmp_path: Path) -> None:
    table = TABLES / f"load-{rate}.csv"
    with table.open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    again = tmp_path / "again.csv"
    with again.open("w", encoding="utf-8") as file:
        write_row(file, LOAD_COLUMNS)
        for call, row in zip(read_load(table), rows, strict=True):
            write_row(file, ServedCall(call, float(row["first_s"]), float(row["last_s"])).row())
    with again.open(encoding="utf-8") as lines:
        found = list(csv.DictReader(lines))
    assert [{k: float(v) for k, v in row.items()} for row in found] == [
        {k: float(v) for k, v in row.items()} for row in rows
    ]


def test_what_is_written_is_read_by_calibrate(tmp_path: Path) -> None:
    path = tmp_path / "steps.csv"
    with path.open("w", encoding="utf-8") as file:
        write_row(file, STEP_COLUMNS)
        write_row(file, TimedStep(Step(16, 1044, 1), 0.0115761, 509.6).row())
        write_row(file, TimedStep(Step(1, 0, 512), 0.03, None).row())
    assert path.read_text(encoding="utf-8").splitlines()[1:] == ["16,1044,1,0.011576,510", "1,0,512,0.030000,"]
    assert [(one.batch, one.passes[0][:2], one.seconds) for one in read_step_table(path)] == [
        (16, (1, 1044), 0.011576),
        (1, (512, 0), 0.03),
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("1,1044", "allowed are numbers"),
        ("1,many,1", "allowed are numbers"),
        ("0,1044,1", "batches from 1 on"),
        ("1,1044,512", "context 0"),
        ("2,0,512", "prompts are measured alone"),
        ("", "no line below its first"),
    ],
)
def test_a_wrong_table_ends_it_with_a_sentence(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "steps.csv"
    path.write_text(f"batch,context,new_tokens\n{line}\n", encoding="utf-8")
    with pytest.raises(SystemExit, match=said):
        read_steps(path)


def test_a_wrong_line_is_told_by_the_number_that_an_editor_shows(tmp_path: Path) -> None:
    steps, load = tmp_path / "steps.csv", tmp_path / "load.csv"
    steps.write_text("batch,context,new_tokens\n\n1,1044,1\n\n2,0,512\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="line 5: a batch of 2 prompts"):
        read_steps(steps)
    load.write_text("arrival_s,prompt_tokens,output_tokens\n3,1,1\n\n0,0,1\n", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"line 4: 0\.0, 0, 1"):
        read_load(load)


def test_a_load_lacks_no_column(tmp_path: Path) -> None:
    path = tmp_path / "load.csv"
    path.write_text("arrival_s,prompt_tokens\n0,1\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="no column output_tokens"):
        read_load(path)


@pytest.mark.parametrize("arrival", ["nan", "inf", "-1"])
def test_a_request_that_never_comes_is_refused(tmp_path: Path, arrival: str) -> None:
    path = tmp_path / "load.csv"
    path.write_text(f"arrival_s,prompt_tokens,output_tokens\n{arrival},1,1\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="allowed are times from 0 on"):
        read_load(path)


@pytest.mark.parametrize("spread", [float("nan"), float("inf"), -1.0])
def test_a_spread_is_a_number_from_0_on(spread: float) -> None:
    with pytest.raises(SystemExit, match="--spread is"):
        check_numbers(Namespace(spread=spread, memory_share=0.9), {})


def test_the_loads_order_is_that_of_arrivals(tmp_path: Path) -> None:
    path = tmp_path / "load.csv"
    path.write_text("arrival_s,prompt_tokens,output_tokens\n2,1,1\n0.5,3,4\n", encoding="utf-8")
    assert read_load(path) == [Call(0.5, 3, 4), Call(2.0, 1, 1)]


def test_a_model_is_qwen3_but_for_what_is_overridden() -> None:
    assert weight_bytes(QWEN3) == pytest.approx(61.1e9, rel=0.002)  # 30.5 billion parameters
    assert config_of('{"num_hidden_layers": 24}') == {**QWEN3, "num_hidden_layers": 24}
    for wrong, said in (('{"layers": 2}', "unknown key 'layers'"), ("{", "a JSON object"), ("[]", "a JSON object")):
        with pytest.raises(SystemExit, match=said):
            config_of(wrong)
