"""`foreserve calibrate` for Stratum and for measurements: what it prints and writes, and which options it refuses."""

import re
import sys
from pathlib import Path

import pytest

from device_model.load import load_device
from device_model.specs.spec import DeviceError
from device_model.step import StepPlan
from device_model.validation.stratum.setting import Setting
from serving.cli import main
from serving.cli.main import make_parser
from serving.usage_error import UsageError


def calibrate(monkeypatch: pytest.MonkeyPatch, *options: str) -> int:
    """The exit code of the command, called in this process."""
    monkeypatch.setattr(sys, "argv", ["foreserve", "calibrate", "--system", "stratum", *options])
    monkeypatch.setattr(main, "hide", lambda: None)
    with pytest.raises(SystemExit) as ended:
        main.main()
    return int(ended.value.code or 0)


@pytest.mark.parametrize("option", ["--reference", "--out", "--date"])
def test_options_that_are_not_for_it_are_named(
    option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert calibrate(monkeypatch, option, "2026-01-02") == 2
    out, err = capsys.readouterr()
    assert not out and err.startswith(f"foreserve calibrate: {option} is for elmoe3d") and err.count("\n") == 1


@pytest.mark.slow
def test_the_constants_that_ship_are_printed_beside_those_that_fit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert calibrate(monkeypatch) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    for name, ships in Setting().constants._asdict().items():
        [(fitted, shown)] = [map(float, line[1:3]) for line in lines if line and line[0] == name]
        assert shown == ships and fitted == pytest.approx(ships, rel=2e-3)
    errors = [line for line in lines if line[-1:] == ["%"]]
    assert len(errors) == 12 and all(abs(float(line[-2])) < 20 and abs(float(line[-4])) < 20 for line in errors)


def measured(*options: str) -> int:
    args = make_parser().parse_args(["calibrate", *options])
    return int(args.run(args))


def written(folder: Path, *lines: str, name: str = "steps") -> Path:
    table = folder / f"{name}.csv"
    table.write_text("\n".join(["batch,context,seconds", *lines]))
    return table


def steps_of(model: str) -> list[str]:
    """Steps of a model that take twice as long as on the A6000 that ships."""
    device, lines = load_device("auto", "a6000", model), []
    for batch, context in ((1, 256), (1, 3000), (8, 256), (32, 2000)):
        seconds = device.probe(StepPlan.of(*[(1, context)] * batch)).first.latency_s
        lines.append(f"{batch},{context},{2 * seconds}")
    return lines


def fitted(folder: Path, *lines: str, options: tuple[str, ...] = ()) -> int:
    """The exit code for steps of OLMoE on an A6000, each a batch, its context and its seconds."""
    table = written(folder, *lines)
    said = ("--measured", str(table), "--model", "olmoe-1b-7b", "--out", str(folder), *options)
    return measured(*said, "--hardware", "a6000")


def test_measurements_are_fitted_told_and_written_as_hardware(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    device = load_device("auto", "a6000", "olmoe-1b-7b")
    assert fitted(tmp_path, *steps_of("olmoe-1b-7b"), options=("--date", "2026-01-02")) == 0
    out, err = capsys.readouterr()
    assert (
        "of 4 measurements." in out
        and "kept: nothing tells of it" in out
        and "tell it from layer_us" in out
        and err.startswith("Written: ")
    )
    assert "do not fit" not in out
    mine = load_device("auto", str(tmp_path / "a6000-measured.toml"), "olmoe-1b-7b")
    plan = StepPlan.of(*[(1, 1024)] * 4)
    twice_s = 2 * device.probe(plan).first.latency_s
    assert mine.probe(plan).first.latency_s == pytest.approx(twice_s, rel=0.02)


@pytest.mark.parametrize("again", [(), ("--measured",)])
def test_two_models_are_told_of_each_and_tell_what_a_pass_takes_by_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], again: tuple[str, ...]
) -> None:
    tables = {model: written(tmp_path, *steps_of(model), name=model) for model in ("olmoe-1b-7b", "gpt-oss-20b")}
    said = f"{tables['gpt-oss-20b']}: model=gpt-oss-20b"
    options = ("--hardware", "a6000", "--model", "olmoe-1b-7b", "--out", str(tmp_path), "--date", "2026-01-02")
    assert measured("--measured", str(tables["olmoe-1b-7b"]), *again, said, *options) == 0
    out = capsys.readouterr().out
    for model in tables:
        assert re.search(
            rf"{model}: mean error \d\.\d %, of decoding \d\.\d %, largest \d\.\d %, of 4 measurements\.", out
        )
    assert "tell it from" not in out
    text = (tmp_path / "a6000-measured.toml").read_text()
    assert re.search(
        r'\npass_us = "Fitted to 4 measurements of olmoe-1b-7b.csv with olmoe-1b-7b \(mean error .*\) and 4 ', text
    )


def test_models_of_as_many_layers_are_refused(tmp_path: Path) -> None:
    tables = [
        f"{written(tmp_path, '1,256,0.02', name=model)}: model={model}" for model in ("qwen3-30b-a3b", "llama-4-scout")
    ]
    with pytest.raises(DeviceError, match=r"have 48 layers each, .* allowed are models of different numbers of layers"):
        measured("--measured", *tables, "--hardware", "4xh100")


def test_figures_that_do_not_fit_are_told_not_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Minutes for seconds in one line, and a larger batch that takes no time.
    assert fitted(tmp_path, "1,256,60", "1,3000,0.01", "32,256,0.0001", "32,2000,1") == 0
    assert "do not fit what was measured" in capsys.readouterr().out
    assert "so that they do not fit" in (tmp_path / "a6000-measured.toml").read_text()


def test_times_faster_than_the_data_sheet_allows_are_told_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sequence of OLMoE reads more than 1.3 GB in BF16, for which an A6000 takes 3 ms."""
    assert fitted(tmp_path, "1,256,0.0028", "1,3000,0.0033", "16,256,0.012", "16,2000,0.0165") == 0
    assert "bandwidth_share is 1 (of hbm_gb_per_s)" in capsys.readouterr().out
    assert "faster than the data sheet allows" in (tmp_path / "a6000-measured.toml").read_text()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--measured", "steps.csv"), "--measured needs --hardware"),
        (("--measured", "steps.csv", "--hardware", "stratum-s"), "is of the kind mono3d; allowed is gpu"),
        (("--measured", "steps.csv", "--hardware", "h100", "--law", "published"), "--law is for a paper"),
        (("--measured", "x.json: batch=8", "--hardware", "h100"), "FILE.json: batch=..., input=..., output=..."),
        (("--measured", "x.csv: batch=8, input=1, output=1", "--hardware", "h100"), "a latency benchmark's FILE.json"),
        (("--measured", "x.csv: modle=olmoe-1b-7b", "--hardware", "h100"), "(did you mean `model`?)"),
        (("--measured", "x.csv: model=", "--hardware", "h100"), "`model` must be a word"),
        (("--measured", "x.csv: model=olmo", "--hardware", "h100"), "There is no model 'olmo'"),
        (
            ("--measured", "x.csv: model=olmoe-1b-7b", "--hardware", "h100", "--model", "mixtral-8x7b"),
            "--model is 'mixtral-8x7b', and each file names its own; allowed is one for files that name none",
        ),
        (("--hardware", "h100"), "--hardware is for --measured"),
        (("--measured", "none.csv", "--hardware", "h100"), "none.csv can't be read"),
        (("--measured", "none.csv", "--hardware", "h100", "--date", "soon"), "--date is 'soon'"),
    ],
)
def test_what_can_not_be_measured_is_refused(options: tuple[str, ...], sentence: str) -> None:
    with pytest.raises((UsageError, DeviceError), match=re.escape(sentence)):
        measured(*options)


def test_more_than_the_model_has_room_for_is_another_model(tmp_path: Path) -> None:
    table = tmp_path / "steps.csv"
    table.write_text("batch,context,seconds\n64,30000,0.1\n")
    with pytest.raises(DeviceError, match="the model that was measured, in the same bits"):
        measured("--measured", str(table), "--hardware", "a6000", "--model", "gpt-oss-20b")
