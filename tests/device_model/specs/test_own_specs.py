"""Are a user's own specs found beside the shipped ones, and never in their place?"""

from pathlib import Path

import pytest

from device_model.load import load_device, load_model
from device_model.specs.hardware_file import load_hardware
from device_model.specs.spec import SpecError, UnknownName
from device_model.specs.spec_file import OWN_SPECS, SPECS, names_in

MODELS, HARDWARE = SPECS / "models", SPECS / "hardware"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for folder, name, mine in (("models", "olmoe-1b-7b", "mine"), ("hardware", "a6000", "my-gpu")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{mine}.toml").write_text((SPECS / folder / f"{name}.toml").read_text())
    monkeypatch.setenv(OWN_SPECS, str(tmp_path))
    return tmp_path


def test_own_specs_are_used_like_shipped_ones(own: Path) -> None:
    assert {"mine", "olmoe-1b-7b"} < set(names_in(MODELS)) and {"my-gpu", "a6000"} < set(names_in(HARDWARE))
    assert load_model("mine") == load_model("olmoe-1b-7b")
    assert load_hardware("my-gpu") == load_hardware("a6000")
    assert load_device("auto", "my-gpu", "mine").kv_capacity_tokens > 0


def test_own_drafts_that_no_verification_takes_are_refused_by_line(own: Path) -> None:
    mine, shipped = own / "calibration" / "mine.toml", SPECS / "calibration/realisable/elmoe3d.toml"
    mine.parent.mkdir()
    mine.write_text(shipped.read_text().replace("verify_tokens = 19", "verify_tokens = 9"))
    hardware = (HARDWARE / "elmoe3d-8gb.toml").read_text().replace('speculation = "elmoe3d"', 'speculation = "mine"')
    (own / "hardware" / "my-xpu.toml").write_text(hardware)
    with pytest.raises(
        SpecError, match=r"mine.toml, line \d+: verify_tokens is 9; allowed is at least the largest depth"
    ):
        load_device("auto", "my-xpu", "qwen3-30b-a3b", "eagle")


def test_a_shipped_name_is_nobodys_own(own: Path) -> None:
    load_model("olmoe-1b-7b")
    (own / "models" / "olmoe-1b-7b.toml").write_text((MODELS / "olmoe-1b-7b.toml").read_text())
    (own / "hardware" / "a6000.toml").write_text((HARDWARE / "a6000.toml").read_text())
    assert names_in(MODELS).count("olmoe-1b-7b") == 1
    with pytest.raises(SpecError, match=r"models/olmoe-1b-7b.toml, in the folder .* is the name of a shipped one"):
        load_model("olmoe-1b-7b")
    with pytest.raises(SpecError, match=r"hardware/a6000.toml.* allowed is any other, such as my-a6000"):
        load_hardware("a6000")
    assert load_model("mine").layers > 0


def test_the_shipped_folder_itself_is_no_rival(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OWN_SPECS, str(SPECS))
    assert load_model("olmoe-1b-7b").layers > 0


def test_without_the_variable_there_are_none(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(OWN_SPECS)
    assert "mine" not in names_in(MODELS)
    with pytest.raises(UnknownName, match=r"There is no model 'olmoe-1b-7' \(did you mean olmoe-1b-7b\?\)"):
        load_model("olmoe-1b-7")


@pytest.mark.parametrize("name", ["none", "a-file"])
def test_what_is_no_folder_is_told_wherever_specs_are_looked_up(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a-file").write_text("")
    monkeypatch.setenv(OWN_SPECS, str(tmp_path / name))
    refused = pytest.raises(SpecError, match=f"FORESERVE_SPECS is '.*{name}', and there is no such folder; allowed")
    for look_up in (load_model, load_hardware, lambda name: load_device("auto", "a6000", name)):
        with refused:
            look_up("mine")
    with refused:
        names_in(MODELS)
    assert load_model("olmoe-1b-7b").layers > 0


def test_a_hardware_file_that_has_changed_is_read_again(own: Path) -> None:
    """In a notebook a user edits it, and asks again."""
    assert load_hardware("my-gpu") == load_hardware("a6000")
    (own / "hardware" / "my-gpu.toml").write_text((HARDWARE / "l40s.toml").read_text())
    assert load_hardware("my-gpu") == load_hardware("l40s")
