"""The arguments of commands that take a scenario: its file, and an option for each of its keys."""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from serving.cli.named_options import naming_options
from serving.scenario.key import key_fields
from serving.scenario.kind import Kind
from serving.scenario.options import KEYS, named_path, options_of, parser_of
from serving.scenario.scenario import Scenario
from serving.scenario.scenario_file import load_scenario, located_in

if TYPE_CHECKING:
    from serving.edge.preflight import PreparedScenario


def add_scenario(parser: argparse.ArgumentParser) -> None:
    """Add the scenario file, and an option for each of its keys."""
    parser.add_argument(
        "scenario", nargs="?", type=named_path, metavar="SCENARIO.toml", help="a TOML file with the keys below"
    )
    for field in key_fields(Scenario):
        key, options = KEYS[field.name], options_of(field.name)
        default = key.default(field.default)
        shown = f"{key.help} (default: {default})" if default else key.help
        if key.kind is Kind.FLAG:
            parser.add_argument(*options, dest=field.name, action=argparse.BooleanOptionalAction, help=shown)
        else:
            parse, metavar = parser_of(key)
            action = "append" if key.kind is Kind.WORDS else "store"
            parser.add_argument(*options, dest=field.name, action=action, type=parse, metavar=metavar, help=shown)


def scenario_of(args: argparse.Namespace) -> Scenario:
    """Return the scenario that the command line asks for. Raise ScenarioError."""
    scenario = load_scenario(args.scenario) if args.scenario else Scenario()
    options = _given(args)
    with naming_options(options):
        return scenario.with_options({key: tuple(v) if type(v) is list else v for key, v in options.items()})


def _given(args: argparse.Namespace) -> dict[str, Any]:
    """Return the keys that the command line sets, with what it says."""
    options = {field.name: getattr(args, field.name) for field in key_fields(Scenario)}
    return {key: value for key, value in options.items() if value is not None}


def prepare_of(args: argparse.Namespace, progress: Callable[[str], None]) -> "PreparedScenario":
    """Return the prepared scenario of the command line. `progress` is told of what takes seconds. Raise UsageError,
    which names the file if there is one, and DeviceError."""
    from serving.edge.preflight import prepare

    scenario = scenario_of(args)
    if scenario.vllm_options:
        progress("Importing vLLM, which checks the options of its front end ...")
    with naming_options(_given(args)), located_in(args.scenario):
        return prepare(scenario)
