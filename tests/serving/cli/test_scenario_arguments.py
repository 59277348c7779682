"""Is what is wrong with a scenario's devices told with the line of the key, though they are made after it was read?"""

from pathlib import Path

import pytest

from device_model.specs.spec import UnknownName
from serving.cli.arguments.scenario import prepare_of
from serving.cli.main import make_parser, parse
from serving.edge import preflight
from serving.scenario.scenario_error import ScenarioError


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ('devices = 1\nhardware = "dgx"\n', 2, "There is no hardware 'dgx'"),
        ('hardware = "elmoe3d-8gb"\nsystem = "abacus"\n', 2, "There is no system 'abacus'"),
        ('\nmodel = "gpt"\n', 2, "There is no model 'gpt'"),
        ('draft = "guess"\n', 1, "There is no draft scheme 'guess'"),
        ('mode = "tau"\ndepth = 99\n', 2, "`depth` is 99"),
        ('depth = "deep"\n', 1, "`depth` is 'deep'"),
        ('\n\nfaults = ["lost: device=0"]\n', 3, "would leave no device"),
        ('devices = 2\nshared_ext = 2\nhardware = "a6000"\nmodel = "olmoe-1b-7b"\n', 2, "no external memory"),
        ('draft = "none"\nmode = "fixed-sd"\n', 2, "`mode` is 'fixed-sd'"),
        ('# none\ntoken_model = "/nowhere"\n', 2, "`token_model` is '/nowhere'"),
        ('# none\nfront_end = "udp://x"\n', 2, "`front_end` is 'udp://x'"),
        ('tls_cert = "none.pem"\ntls_key = "none.key"\n', 1, "`tls_cert` is 'none.pem'"),
        ('speed = 2\nadmin_key_file = "nowhere"\n', 2, "`admin_key_file` is 'nowhere'"),
    ],
)
def test_the_line_of_the_key_is_told(tmp_path: Path, text: str, line: int, said: str) -> None:
    path = tmp_path / "it.toml"
    path.write_text(text)
    args = make_parser().parse_args(["serve", str(path), "--http-port", "0", "--grpc-port", "0"])
    with pytest.raises(ScenarioError) as caught:
        prepare_of(args, print)
    assert str(caught.value).startswith(f"{path}, line {line}: ")
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_an_option_that_is_not_in_the_file_is_told_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "it.toml"
    path.write_text("devices = 1\n")
    options = ["--hardware", "dgx", "--http-port", "0", "--grpc-port", "0"]
    with pytest.raises(ScenarioError, match="There is no hardware 'dgx'") as caught:
        prepare_of(make_parser().parse_args(["serve", str(path), *options]), print)
    assert str(caught.value).startswith(f"{path}: ")
    with pytest.raises(UnknownName, match=r"^There is no hardware 'dgx'"):
        prepare_of(make_parser().parse_args(["serve", *options]), print)


def test_an_option_is_named_where_the_command_line_set_the_key_and_the_key_where_the_file_did(tmp_path: Path) -> None:
    path = tmp_path / "it.toml"
    path.write_text("devices = 1\nblock_tokens = 9999\n")
    with pytest.raises(ScenarioError, match="`block_tokens` is 9999"):
        prepare_of(make_parser().parse_args(["serve", str(path)]), print)
    for words, said in (
        (["--max-num-seqs", "0"], "`--max-num-seqs` (max_num_seqs) is 0: it must be a whole number of at least 1."),
        (["--width", "3", "--draft", "none"], "`--width` is set, and nothing drafts (`--draft`): "),
        (["--swap", "pays"], "`--swap` is 'pays' and `placement` is 'lru': "),
        (["--fault", "x"], "An entry of `--fault` (faults), 'x', has no kind"),
    ):
        with pytest.raises(ScenarioError) as caught:
            prepare_of(make_parser().parse_args(["serve", *words]), print)
        assert str(caught.value).startswith(said)


def test_a_line_is_said_before_vllm_is_imported_to_check_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    before: list[list[str]] = []
    monkeypatch.setattr(preflight, "prepare", lambda _: before.append(list(said)))
    prepare_of(parse(["serve"]), said.append)
    prepare_of(parse(["serve", "--", "--root-path=/p"]), said.append)
    assert before[0] == [] and before[1][0].startswith("Importing vLLM")


def test_explain_names_its_options() -> None:
    args = make_parser().parse_args(["explain", "--acceptance", "measured"])
    with pytest.raises(ScenarioError) as caught:
        args.run(args)
    assert str(caught.value) == "`--acceptance` is set, and nothing drafts (`--draft`): only drafts are accepted."
