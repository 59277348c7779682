"""Is a key what it is declared to be, everywhere: as an option, in a file, in the README, and when it is wrong?"""

import argparse
import dataclasses
from pathlib import Path

import pytest

from serving.cli.main import make_parser
from serving.scenario.key import key_fields, key_of, keys_of
from serving.scenario.key_table import README, with_table
from serving.scenario.kind import Kind
from serving.scenario.options import option_of
from serving.scenario.scenario import Scenario
from serving.scenario.scenario_error import ScenarioError
from serving.scenario.scenario_file import load_scenario

FIELDS = key_fields(Scenario)
BOUND = [field for field in FIELDS if key_of(field).least is not None or key_of(field).above is not None]
CHOSEN = [field for field in FIELDS if key_of(field).choices]


def serve() -> argparse.ArgumentParser:
    commands = next(action for action in make_parser()._actions if isinstance(action, argparse._SubParsersAction))
    parser: argparse.ArgumentParser = commands.choices["serve"]
    return parser


def test_the_readme_has_the_table_of_all_keys() -> None:
    text = README.read_text(encoding="utf-8")
    assert with_table(text) == text, "run `python -m serving.scenario.key_table`"


def test_each_key_is_an_option_that_says_what_it_is() -> None:
    options = {option: action for action in serve()._actions for option in action.option_strings}
    for field in FIELDS:
        assert key_of(field).help in str(options[option_of(field.name)].help)


def test_its_help_shows_its_default_with_the_unit() -> None:
    options = {option: action for action in serve()._actions for option in action.option_strings}
    for field in FIELDS:
        key, told = key_of(field), str(options[option_of(field.name)].help)
        assert ("(default: " in told) == bool(key.default(field.default))
        assert not key.default(field.default) or f"(default: {key.default(field.default)})" in told
        assert str(Path(__file__).parents[3]) not in told
    assert str(options["--patience-s"].help).endswith("(default: 10.0 emulated seconds)")


def test_each_number_says_its_unit_but_ports_and_seeds() -> None:
    numbers = [field for field in FIELDS if key_of(field).kind in (Kind.WHOLE, Kind.NUMBER)]
    assert {field.name for field in numbers if not key_of(field).unit} == {
        *("http_port", "grpc_port", "front_end_port", "seed")
    }
    for field in numbers:
        suffix = {"_s": "seconds", "_bytes": "bytes", "_tokens": "tokens", "_per_min": "minute"}
        for end, unit in suffix.items():
            assert not field.name.endswith(end) or unit in key_of(field).unit


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (3, {Kind.WHOLE: 3, Kind.NUMBER: 3.0, Kind.WORD_OR_WHOLE: "3"}),
        (2.5, {Kind.NUMBER: 2.5}),
        (True, {Kind.FLAG: True}),
        ("auto", {Kind.WORD: "auto", Kind.FILE: "auto", Kind.WORD_OR_WHOLE: "auto"}),
        (["a"], {Kind.WORDS: ("a",)}),
        ([1], {}),
        ({"x": 1}, {}),
    ],
)
def test_a_value_is_of_its_kind_or_refused(value: object, kept: dict[Kind, object]) -> None:
    found = {kind: kind.value_of(value) for kind in Kind}
    assert {kind: each for kind, each in found.items() if each is not None} == kept
    assert all(type(found[kind]) is type(each) for kind, each in kept.items())


def test_a_value_of_another_kind_is_told_with_kind_and_unit(tmp_path: Path) -> None:
    file = tmp_path / "scenario.toml"
    for text, must in (
        ("max_model_len = 'x'", "a whole number of tokens"),
        ("depth = 1.5", "a whole number of tokens or a string"),
        ("tls_cert = 1", "a string, the name of a file"),
    ):
        file.write_text(text)
        with pytest.raises(ScenarioError, match=f"it must be {must}"):
            load_scenario(file)


@pytest.mark.parametrize("field", BOUND, ids=lambda field: field.name)
def test_what_is_out_of_bounds_is_told_with_what_is_allowed(field: "dataclasses.Field[object]", tmp_path: Path) -> None:
    key = key_of(field)
    bound = key.least if key.above is None else key.above
    assert bound is not None
    wrong = bound - (key.above is None)
    with pytest.raises(ScenarioError, match=rf"`{field.name}` is {wrong:g}.*: it must be .*{bound:g}"):
        Scenario(**{field.name: type(field.default)(wrong)})  # type: ignore[arg-type]
    file = tmp_path / "scenario.toml"
    file.write_text(f"# one\n{field.name} = {type(field.default)(wrong)}\n")  # type: ignore[call-arg]
    with pytest.raises(ScenarioError, match=rf"scenario\.toml, line 2: `{field.name}`"):
        load_scenario(file)


@pytest.mark.parametrize("field", CHOSEN, ids=lambda field: field.name)
def test_what_is_no_choice_is_told_with_all_of_them(field: "dataclasses.Field[object]") -> None:
    with pytest.raises(
        ScenarioError, match=f"`{field.name}` is 'other': it must be {' or '.join(key_of(field).choices)}"
    ):
        Scenario(**{field.name: "other"})


def test_what_is_secret_is_not_shown() -> None:
    secret = {name: ("open-sesame",) for name, key in keys_of(Scenario).items() if key.is_secret}
    assert set(secret) == {"api_keys", "admin_keys"}
    assert "open-sesame" not in repr(Scenario(api_keys=("open-sesame",)))
    for name in secret:
        with pytest.raises(ScenarioError, match=r"^It must be a list of strings") as wrong:
            keys_of(Scenario)[name].read("open-sesame", "It")
        assert "open-sesame" not in str(wrong.value)
