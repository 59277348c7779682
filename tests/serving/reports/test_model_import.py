"""`foreserve model add`: what it prints is a spec that works, and what it refuses it refuses in a sentence."""

import subprocess
import sys
from pathlib import Path

import pytest

from device_model.load import load_device
from device_model.specs import spec_file
from device_model.specs.spec import Model
from device_model.specs.spec_file import OWN_SPECS, SPECS, read_spec
from device_model.step import StepPlan
from serving.cli.main import make_parser
from serving.usage_error import UsageError

CONFIGS = sorted((Path(__file__).parents[2] / "device_model" / "specs" / "configs").glob("*.json"))


def model_add(*argv: str) -> int:
    args = make_parser().parse_args(["model", "add", *argv])
    return int(args.run(args))


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_what_it_prints_is_a_spec_of_the_bundled_architecture(config, tmp_path, capsys):
    assert model_add(str(config), "--name", "mine") == 0
    path = tmp_path / "mine.toml"
    path.write_text(capsys.readouterr().out)
    bundled = read_spec(Model, SPECS / "models" / f"{config.stem}.toml")
    made = read_spec(Model, path)
    fields = set(Model.__dataclass_fields__) - {"calibration"}
    assert {key: getattr(made, key) for key in fields} == {key: getattr(bundled, key) for key in fields}


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_a_device_loads_it_once_it_is_saved(config, tmp_path, capsys, monkeypatch):
    model_add(str(config), "--name", "mine")
    specs = tmp_path / "specs"
    (specs / "models").mkdir(parents=True)
    (specs / "models" / "mine.toml").write_text(capsys.readouterr().out)
    for kind in ("hardware", "calibration"):
        (specs / kind).symlink_to(SPECS / kind)
    slm = "qwen2.5-1.5b.toml"
    (specs / "models" / slm).symlink_to(SPECS / "models" / slm)
    monkeypatch.setattr("device_model.load.SPECS", specs)
    assert spec_file.SPECS == SPECS
    device = load_device("elmoe3d", "elmoe3d-8gb", "mine")
    assert device.probe(StepPlan.of((1, 1000))).latency_s[0] > 0


def test_it_says_what_to_do_with_it_and_which_calibration_it_took(tmp_path, capsys):
    folder = tmp_path / "My-MoE"
    folder.mkdir()
    (folder / "config.json").write_text((CONFIGS[0].parent / "glm-4.7-flash.json").read_text())
    assert model_add(str(folder / "config.json")) == 0
    out, err = capsys.readouterr()
    assert out.startswith("# my-moe, from its config.json by `foreserve model add`.\n")
    assert 'calibration = "uniform"' in out and "qwen3-30b-a3b)" in out
    assert "device_model/specs/models/my-moe.toml" in err and "--model my-moe" in err
    assert "calibration is 'uniform'" in err


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        (None, [], "can't be read: No such file or directory"),
        ("{}", [], "the key model_type is missing; required is one of deepseek_v2,"),
        ('{"model_type": "bert"}', [], "model_type is 'bert'; allowed are deepseek_v2,"),
        ('{"model_type": "llama"}', [], "the key num_hidden_layers is missing; required is a whole number"),
        (CONFIGS[0].read_text(), ["--name", "../mine"], "--name is '../mine'; allowed are small letters,"),
    ],
)
def test_what_it_cannot_read_it_refuses_in_one_sentence(tmp_path, text, options, said):
    """As a user meets it: on stderr, with exit code 2 and no traceback."""
    path = tmp_path / "config.json"
    if text is not None:
        path.write_text(text)
    command = [sys.executable, "-m", "serving.cli", "model", "add", str(path), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("foreserve model: ") and said in done.stderr
    assert done.stderr.count("\n") == 1 and done.stderr.endswith(".\n")


def test_what_is_saved_is_used_at_once(tmp_path, capsys, monkeypatch):
    config = str(CONFIGS[0])
    monkeypatch.setenv(OWN_SPECS, str(tmp_path / "specs"))
    assert model_add(config, "--save", "mine") == 0
    out, err = capsys.readouterr()
    where, assumed = err.splitlines()
    assert (out, where) == ("", f"Use it as --model mine: {tmp_path}/specs/models/mine.toml")
    assert assumed.startswith("Its calibration is 'uniform': no locality of experts")
    assert load_device("auto", "elmoe3d-8gb", "mine").kv_capacity_tokens > 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--save", "olmoe-1b-7b"), "a model that ships with foreserve"),
        (("--save", "a/b"), "--save is 'a/b'; allowed are small letters"),
        (("--save", ""), "--save is ''; allowed are small letters"),
        (("--replace",), "--replace is given without --save"),
        (("--save", "mine", "--name", "yours"), "both name the model"),
    ],
)
def test_what_can_not_be_saved_is_told(tmp_path, monkeypatch, options, words):
    monkeypatch.setenv(OWN_SPECS, str(tmp_path))
    with pytest.raises(UsageError, match=words):
        model_add(str(CONFIGS[0]), *options)
    assert not list(tmp_path.iterdir())


def test_what_is_saved_is_replaced_if_asked_alone(tmp_path, monkeypatch):
    monkeypatch.setenv(OWN_SPECS, str(tmp_path))
    kept = tmp_path / "models" / "mine.toml"
    assert model_add(str(CONFIGS[0]), "--save", "mine") == 0
    first = kept.read_text()
    with pytest.raises(UsageError, match=f"there is {kept} already: choose another, or give --replace"):
        model_add(str(CONFIGS[1]), "--save", "mine")
    assert kept.read_text() == first
    assert model_add(str(CONFIGS[1]), "--save", "mine", "--replace") == 0
    assert kept.read_text() != first


def test_a_folder_that_names_no_model_is_told(tmp_path):
    folder = tmp_path / "My Model"
    folder.mkdir()
    (folder / "config.json").write_text(CONFIGS[0].read_text())
    with pytest.raises(UsageError, match="The folder of the file, which names the model without --name, is 'my model'"):
        model_add(str(folder / "config.json"))


def test_without_a_folder_nothing_is_saved(monkeypatch):
    monkeypatch.delenv(OWN_SPECS, raising=False)
    with pytest.raises(UsageError, match="set FORESERVE_SPECS to one of yours"):
        model_add(str(CONFIGS[0]), "--save", "mine")
