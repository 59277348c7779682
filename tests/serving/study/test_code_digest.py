"""Are kept points those of the code that made them: of all of it, and of nothing else?"""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import device_model
import serving
from device_model.specs.spec_file import OWN_SPECS
from serving.study.code_digest import DATA, _files, code_digest, digest_of, made_of

PACKAGES = [Path(str(package.__file__)).parent for package in (serving, device_model)]


@pytest.fixture
def copied(tmp_path: Path) -> Callable[[], str]:
    """A copy of all code and data; what its digest is."""
    ignore = shutil.ignore_patterns("__pycache__", "*.safetensors", "*.png", "*.md")
    for package in PACKAGES:
        shutil.copytree(package, tmp_path / package.name, ignore=ignore)
    return lambda: digest_of(*(tmp_path / package.name for package in PACKAGES))


def change(path: Path, was: str, becomes: str) -> None:
    text = path.read_text()
    assert was in text
    path.write_text(text.replace(was, becomes, 1))


def test_a_point_is_made_of_what_simulates_and_of_no_edge_report_or_command() -> None:
    files = dict(each for package in PACKAGES for each in _files(package))
    modules = set(made_of(files))
    assert {
        "serving.simulation.simulator",
        "serving.device.pending_steps",
        "serving.scheduler.scheduler",
        "serving.admission.rules",
        "serving.policies.mode.tau",
        "serving.workload.arrivals",
        "device_model.systems.elmoe3d",
        "device_model.drafts.elastic",
    } <= modules
    rooms = {name.split(".")[1] for name in modules if name.startswith("serving.")}
    assert not rooms & {"cli", "api", "edge", "cluster", "lab", "bench", "parity", "telemetry", "reports", "load"}
    assert not any(name.startswith(("serving.study.report", "device_model.validation")) for name in modules)


def test_what_makes_no_difference_to_a_result_makes_none_to_it(tmp_path: Path, copied: Callable[[], str]) -> None:
    before = copied()
    assert before == code_digest()
    (tmp_path / "serving/cli/emulation.py").write_text("# Another one.\n")
    (tmp_path / "serving/study/report/page.py").unlink()
    change(tmp_path / "serving/device/engine.py", '"""', '"""Well: ')
    change(tmp_path / "serving/simulation/node.py", "\nclass ", "\n# Why not?\nclass ")
    change(tmp_path / "device_model/validation/elmoe_table3.csv", "2.83", "2.84")
    assert copied() == before


@pytest.mark.parametrize(
    ("file", "was", "becomes"),
    [
        ("serving/scheduler/scheduler.py", " + ", " - "),
        ("serving/policies/mode/tau.py", ">=", ">"),
        ("device_model/roofline.py", "max(", "min("),
        ("device_model/specs/hardware/elmoe3d-8gb.toml", "8", "9"),
        ("device_model/specs/acceptance/elmoe3d.csv", "0.33", "0.34"),
    ],
)
def test_what_makes_one_does(tmp_path: Path, copied: Callable[[], str], file: str, was: str, becomes: str) -> None:
    before = copied()
    change(tmp_path / file, was, becomes)
    assert copied() != before


@pytest.mark.parametrize("gone", ["serving.study.run", "serving.policies", "device_model.validation"])
def test_where_what_makes_points_is_gone_it_says_so(tmp_path: Path, copied: Callable[[], str], gone: str) -> None:
    """Moved, it would otherwise leave points of other code in use."""
    path = tmp_path.joinpath(*gone.split("."))
    path.rename(path.with_name("moved")) if path.is_dir() else path.with_suffix(".py").unlink()
    with pytest.raises(KeyError, match=re.escape(gone)):
        copied()


def test_data_beside_the_device_model_is_of_kinds_that_are_read() -> None:
    (folder,) = (package for package in PACKAGES if package.name == "device_model")
    kinds = {path.suffix for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert kinds - {".py", ".md", ".png"} <= set(DATA)


def test_a_users_own_specs_make_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = digest_of(*PACKAGES)
    monkeypatch.setenv(OWN_SPECS, str(tmp_path))
    assert digest_of(*PACKAGES) == before
    digests = [before]
    for text in ("a = 1", "a = 2"):  # the second while the process runs
        (tmp_path / "mine.toml").write_text(text)
        assert code_digest() == digest_of(*PACKAGES)
        digests.append(code_digest())
    (tmp_path / "mine.toml").rename(tmp_path / "other.toml")
    digests.append(code_digest())
    assert len(set(digests)) == len(digests)
