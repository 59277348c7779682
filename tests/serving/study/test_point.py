"""Is a point known by all that decides what comes of it, and by nothing else?"""

import os
import pickle
import shutil
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.specs.hardware_file import FOLDER
from serving.scenario.scenario import BUNDLED, BUNDLED_MODEL, Scenario
from serving.study.measures.targets import Targets
from serving.study.point import OF_TOKEN_MODEL, Point
from serving.workload.table import WorkloadTable


@pytest.fixture
def token_model(tmp_path: Path) -> Path:
    """A token model of somebody's own: the bundled one, elsewhere."""
    return Path(shutil.copytree(BUNDLED / "foreserve-moe", tmp_path / "mine"))


def point(token_model: Path, workload: dict[str, Any]) -> Point:
    """A point whose workload lies beside the token model, named as `at` says."""
    return Point(
        names={},
        scenario_keys={"token_model": str(token_model), "residency": "trace"},
        workload=WorkloadTable(workload, token_model / "workload.toml"),
        load=1.0,
        seed=0,
        requests=1,
        targets=Targets(),
        from_s=0.0,
        to_s=1.0,
    )


def of_scenario(**keys: Any) -> Point:
    """A point of the bundled token model."""
    return replace(point(BUNDLED_MODEL, {"requests": 1}), scenario_keys=keys)


VALUES: dict[str, list[Any]] = {
    "fleet": [("2 x elmoe3d-4gb",), ("elmoe3d-8gb+none", "elmoe3d-4gb")],
    "faults": [("stall: for=1",), ("stall: for=2",)],
    "router": ["round-robin", "score: load=2"],
    "depth": ["auto", "3"],
    "slo_classes": [("a:",), ("a: priority=1",)],
    "token_model": ["foreserve-tiny"],
    "seed": [1, 2],
}
keys = st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in VALUES.items()})


@given(keys, keys)
def test_other_keys_of_a_scenario_make_another_point(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert (of_scenario(**one).key == of_scenario(**other).key) == (one == other)


@given(keys, st.randoms())
def test_neither_order_nor_a_default_that_is_said_makes_another(one: dict[str, Any], random: Random) -> None:
    said = [*one.items(), *((name, getattr(Scenario(), name)) for name in ("tau", "hardware", "objective"))]
    random.shuffle(said)
    assert of_scenario(**dict(said)).key == of_scenario(**one).key


@given(keys)
def test_a_point_that_is_sent_to_a_worker_is_the_same(one: dict[str, Any]) -> None:
    sent = of_scenario(**one)
    assert sent.scenario.members  # What was parsed here may go with it, or not.
    got = pickle.loads(pickle.dumps(sent))
    assert (got.key, got.scenario, got.workload.values) == (sent.key, sent.scenario, sent.workload.values)


def append(path: Path) -> None:
    """Make a file another one; two changes within a clock's tick differ in size."""
    with path.open("ab") as file:
        file.write(b"\n")


@pytest.mark.parametrize("name", OF_TOKEN_MODEL)
def test_a_token_model_that_was_recorded_anew_makes_other_points(token_model: Path, name: str) -> None:
    before = point(token_model, {}).key
    append(token_model / name)
    assert point(token_model, {}).key != before


@pytest.mark.parametrize("workload", [{"file": "trace.csv"}, {"prompts": {"tokenizer": "trace.csv"}}])
def test_so_does_a_file_that_a_workload_reads(token_model: Path, workload: dict[str, Any]) -> None:
    trace = token_model / "trace.csv"
    trace.write_text("arrival_s,prompt_tokens\n0,1\n")
    before = point(token_model, workload).key
    append(trace)
    assert point(token_model, workload).key != before


@pytest.mark.parametrize(
    "keys",
    [
        {"fleet": ("2 x gpu/./mine.toml", "h100")},
        {"hardware": "./mine.toml"},
        {"hardware": "mine.toml"},
        {"hardware": "below/mine.toml"},
        {"hardware": "a folder/mine.toml"},
    ],
)
def test_so_does_a_file_of_hardware(tmp_path: Path, keys: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in (".", "below", "a folder"):
        mine = tmp_path / folder / "mine.toml"
        mine.parent.mkdir(exist_ok=True)
        mine.write_text((FOLDER / "a6000.toml").read_text())
    before = of_scenario(model="olmoe-1b-7b", **keys).key
    for mine in tmp_path.rglob("mine.toml"):
        mine.write_text(mine.read_text().replace("gpus = 1", "gpus = 1 "))
    assert of_scenario(model="olmoe-1b-7b", **keys).key != before


def test_so_do_other_keys_of_clients_wherever_they_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "keys"
    file.write_text("a")
    seen = [of_scenario(api_key_file=str(file)).key]
    file.write_text("a\nb")
    seen.append(of_scenario(api_key_file=str(file)).key)
    monkeypatch.setenv("FORESERVE_API_KEYS", "c")
    seen.append(of_scenario(api_key_file=str(file)).key)
    file.unlink()
    seen.append(of_scenario(api_key_file=str(file)).key)
    assert len(set(seen)) == 4


def test_its_weights_text_and_age_make_no_difference(token_model: Path) -> None:
    before = point(token_model, {}).key
    for name in ("model.safetensors", "recording.npz", "tokenizer.json"):
        append(token_model / name)
    os.utime(token_model / "routes.npz", ns=(0, 0))
    assert point(token_model, {}).key == before


def test_other_weights_make_other_points_where_their_drafts_are_executed(token_model: Path) -> None:
    law = point(token_model, {})
    executed = replace(law, scenario_keys=law.scenario_keys | {"acceptance": "executed"})
    before = law.key, executed.key
    append(token_model / "model.safetensors")
    law, executed = (replace(each, seed=each.seed) for each in (law, executed))
    assert law.key == before[0] and executed.key != before[1]
