"""Is a point known by all that decides what comes of it, and by nothing else?"""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from serving.scenario.scenario import BUNDLED
from serving.study.point import OF_TOKEN_MODEL, Point
from serving.study.targets import Targets


@pytest.fixture
def token_model(tmp_path: Path) -> Path:
    """A token model of somebody's own: the bundled one, elsewhere."""
    return Path(shutil.copytree(BUNDLED / "foreserve-moe", tmp_path / "mine"))


def point(token_model: Path, workload: dict[str, Any]) -> Point:
    """A point whose workload lies beside the token model, named as `at` says."""
    return Point(
        names={},
        scenario={"token_model": str(token_model), "residency": "trace"},
        workload=workload,
        workload_path=str(token_model / "workload.toml"),
        workload_at=(),
        load=1.0,
        seed=0,
        requests=1,
        targets=Targets(),
        from_s=0.0,
        to_s=1.0,
    )


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


def test_its_weights_text_and_age_make_no_difference(token_model: Path) -> None:
    before = point(token_model, {}).key
    for name in ("model.safetensors", "recording.npz", "tokenizer.json"):
        append(token_model / name)
    os.utime(token_model / "routes.npz", ns=(0, 0))
    assert point(token_model, {}).key == before
