"""Is what a study has made kept, whatever becomes of the rest of its folder?"""

import multiprocessing
from pathlib import Path

import pytest

from serving.study import load_study, run_study
from serving.study.run import Run
from serving.study.store import Store
from serving.usage_error import CommandFailed, UsageError

STUDY = """
question = "sweep"
axes = { load = [1, 2] }
[workload]
requests = 5
prompt = 20
output = 5
arrivals = { kind = "poisson", rate_per_s = 1 }
"""


def stored(folder: Path) -> Store:
    path = folder / "study.toml"
    path.write_text(STUDY)
    return Store(folder / "out", load_study(path))


@pytest.mark.parametrize("name", ["points.csv", "requests.parquet", "timeline.parquet", "report.html"])
def test_what_cannot_be_written_in_the_end_is_told_and_the_points_are_kept(tmp_path: Path, name: str) -> None:
    folder = stored(tmp_path).folder
    (folder / name).mkdir()
    study = load_study(tmp_path / "study.toml")
    with pytest.raises(CommandFailed, match=rf"{name} cannot be written: .*\. The points are kept in {folder}"):
        run_study(study, folder)
    assert len(list((folder / "points").iterdir())) == 2
    (folder / name).rmdir()
    made = [run_study(study, folder, on_progress=lambda progress: pytest.fail("It was made anew.")).points]
    assert len(made[0]) == 2


def test_a_folder_that_cannot_say_what_is_asked_is_refused_before_the_first_point(tmp_path: Path) -> None:
    (tmp_path / "out" / "study.toml").mkdir(parents=True)
    with pytest.raises(UsageError, match=r"^--out: .*study\.toml cannot be written: "):
        stored(tmp_path)


def keep(store: Store, times: int) -> None:
    for _ in range(times):
        store.put("same", Run({"judged": 1}, bytes(200_000), []))


def test_two_that_run_the_same_study_do_not_end_each_other(tmp_path: Path) -> None:
    store, fork = stored(tmp_path), multiprocessing.get_context("fork")
    both = [fork.Process(target=keep, args=(store, 300)) for _ in range(2)]
    for each in both:
        each.start()
    for each in both:
        each.join(60)
    assert [each.exitcode for each in both] == [0, 0]
    assert store.get("same") is not None
    assert [path.name for path in (store.folder / "points").iterdir()] == ["same.msgpack"]
    store.forget()
    assert store.get("same") is None
