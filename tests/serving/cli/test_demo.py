"""Is the server of a demo the one that was asked for?"""

from dataclasses import replace
from pathlib import Path

import pytest

from serving.cli.arguments.scenario import scenario_of
from serving.cli.demonstration import answerer
from serving.cli.main import make_parser
from serving.scenario.command_line import options_of
from serving.scenario.scenario import Scenario
from serving.scenario.scenario_file import load_scenario


@pytest.mark.parametrize(
    "scenario",
    [
        Scenario(),
        Scenario(early_rejection=False, prefix_caching=False),
        Scenario(fleet=("2 x elmoe3d-4gb", "elmoe3d-8gb"), speed=0.25, mode="cost", depth="auto"),
    ],
)
def test_the_options_of_a_scenario_make_the_same_one(scenario: Scenario) -> None:
    assert scenario_of(make_parser().parse_args(["serve", *options_of(scenario)])) == scenario


def test_a_scenario_without_slo_classes_is_served_without(tmp_path: Path) -> None:
    path = tmp_path / "it.toml"
    path.write_text("slo_classes = []\n")
    scenario = load_scenario(path)
    served = scenario_of(make_parser().parse_args(["serve", *options_of(scenario)]))
    assert scenario.slo == served.slo == {}


@pytest.mark.parametrize(
    ("token_model", "who"),
    [
        ("foreserve-moe", "the bundled token model"),
        ("foreserve-tiny", "the token model foreserve-tiny"),
        ("Qwen/Qwen3-8B", "the token model Qwen3-8B"),
    ],
)
def test_a_reply_is_said_to_be_of_the_token_model_that_makes_it(token_model: str, who: str) -> None:
    assert answerer(Scenario(token_model=token_model)) == who


def test_keys_are_not_for_the_command_line() -> None:
    scenario = Scenario(devices=2)
    keyed = replace(scenario, api_keys=("a", "b"), admin_keys=("c",), api_key_file="d", admin_key_file="e")
    assert options_of(keyed) == options_of(scenario)
