"""Are names that people try understood, or the nearest one told?"""

import shutil
import subprocess
from pathlib import Path

import pytest

from serving.cli.main import make_parser
from serving.cli.scenario_arguments import scenario_of

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
    ],
)
def test_the_nearest_name_is_told(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        make_parser().parse_args(arguments)
    assert ended.value.code == 2 and words in capsys.readouterr().err


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
