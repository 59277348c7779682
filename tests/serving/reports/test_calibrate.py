"""`foreserve calibrate` for Stratum: what it prints, and which options are not for it."""

import sys

import pytest

from device_model.validation.stratum.setting import Setting
from serving.cli import main


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
