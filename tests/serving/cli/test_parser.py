"""Are names that people try understood, or the nearest one told?"""

import shutil
import subprocess
from pathlib import Path

import pytest

from serving.cli.arguments.scenario import scenario_of
from serving.cli.main import make_parser
from serving.token_model.config_file import hub_found
from serving.usage_error import UsageError

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["serve", "--hardwre", "x"], "unrecognized arguments: --hardwre (did you mean `--hardware`?)"),
        (["serve", "--max-num-seqz=3"], "(did you mean `--max-num-seqs`?)"),
        (["load", "--reqests", "3"], "foreserve load: error: unrecognized arguments: --reqests 3"),
        (["model", "add", "config.json", "--sav", "x", "--nam=y", "--zz"], "foreserve model add: error: unrecognized"),
        (["studdy"], "(did you mean `study`?)"),
        (["calibrate", "--system", "stratuum"], "(did you mean `stratum`?)"),
        (["load", "--port", "8000"], "unrecognized arguments: --port 8000 (did you mean `--url`?)"),
        (["load", "--host=127.0.0.1"], "(did you mean `--url`?)"),
        (["load", "http://127.0.0.1:8000"], "(did you mean `--url`?)"),
        (["top", "--port", "8000"], "unrecognized arguments: --port (did you mean `--url`?)"),
        (["explain", "gpu"], "unrecognized arguments: gpu (did you mean `--system`?)"),
        (["explain", "h100"], "(did you mean `--hardware`?)"),
        (["explain", "./my-gpu.toml"], "(did you mean `--hardware`?)"),
        (["explain", "olmoe"], "(did you mean `--model`?)"),
        (["explain", "elmoe"], "(did you mean `--system` or `--hardware`?)"),
        (["explain", "gpu", "--batsh", "3"], "unrecognized arguments: gpu --batsh 3 (did you mean `--batch`?)"),
        (["policies", "olmoe-1b-7b"], "(did you mean `--model`?)"),
    ],
)
def test_the_nearest_name_is_told(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        make_parser().parse_args(arguments)
    assert ended.value.code == 2 and words in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["study", "node-sizing.toml", "--out", ""],
        ["study", " "],
        ["serve", ""],
        ["serve", "--step-log", ""],
        ["record", "--prompts-file", ""],
        ["validate", "--plots", ""],
    ],
)
def test_an_empty_path_is_not_this_folder(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        make_parser().parse_args(arguments)
    assert "it is empty; allowed is the name of a file or folder" in capsys.readouterr().err


def test_no_name_is_told_where_none_is_near(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for own, arguments in (("", ["explain", "zzzzzz"]), (str(tmp_path / "none"), ["explain", "olmoe-1b-7b"])):
        monkeypatch.setenv("FORESERVE_SPECS", own)
        with pytest.raises(SystemExit):
            make_parser().parse_args(arguments)
        assert capsys.readouterr().err.endswith(f"unrecognized arguments: {arguments[1]}\n")


def test_help_of_a_command_says_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    for command, words in (
        ("bench", "Measure how well this machine keeps"),
        ("parity", "Serve a workload live (a real"),
    ):
        with pytest.raises(SystemExit):
            make_parser().parse_args([command, "--help"])
        usage, _, rest = capsys.readouterr().out.partition("\n\n")
        assert usage.startswith(f"usage: foreserve {command}") and rest.startswith(words)


@pytest.mark.parametrize("command", ["bench", "locality", "record", "speculate"])
def test_a_bundled_token_model_goes_by_its_name(command: str) -> None:
    for arguments, name in (([], "foreserve-moe"), (["--token-model", "foreserve-tiny"], "foreserve-tiny")):
        args = make_parser().parse_args([command, *arguments])
        assert (Path(args.token_model) / "config.json").is_file() and Path(args.token_model).name == name


@pytest.mark.parametrize("command", ["bench", "locality", "record", "speculate"])
def test_a_token_model_that_there_is_not_is_refused_in_a_sentence(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    hub_found.cache_clear()
    out = ["--out", str(tmp_path / "x.npz")] if command == "record" else []
    args = make_parser().parse_args([command, "--token-model", "nope/nope", *out])
    try:
        with pytest.raises(UsageError, match=r"token.model.* '?nope/nope'?: "):
            args.run(args)
    finally:
        hub_found.cache_clear()


def test_answers_that_are_too_short_to_tell_of_locality_are_refused_at_once() -> None:
    args = make_parser().parse_args(["locality", "--prompts", "1", "--tokens", "16"])
    with pytest.raises(UsageError, match=r"^--tokens is 16; allowed is 32 or more"):
        args.run(args)


def test_speculate_writes_down_no_day_that_there_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert make_parser().parse_args(["speculate", "--date", "2026-11-26"]).date == "2026-11-26"
    with pytest.raises(SystemExit):
        make_parser().parse_args(["speculate", "--date", "yesterday"])
    assert "'yesterday' is not allowed; allowed is a day, as 2026-11-26" in capsys.readouterr().err


def test_port_is_the_port_of_http() -> None:
    for option in ("--port", "--http-port"):
        assert scenario_of(make_parser().parse_args(["serve", option, "8123"])).http_port == 8123


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
@pytest.mark.parametrize("target", ["serve", "demo"])
def test_make_passes_options_on(target: str) -> None:
    told = subprocess.run(
        ["make", "-n", target, "ARGS=--devices 2 --port 8123"], cwd=ROOT, capture_output=True, text=True, timeout=30
    )
    assert f"foreserve {target} --devices 2 --port 8123\n" in told.stdout
