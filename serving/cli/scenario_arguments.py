"""The arguments of commands that take a scenario: its file, and an option for each of its keys."""

import argparse
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from device_model.specs.spec import DeviceError
from serving.scenario.options import KEYS, file_name, option_of
from serving.scenario.scenario import Scenario
from serving.scenario.scenario_file import load_scenario, located
from serving.usage_error import UsageError

if TYPE_CHECKING:
    from serving.edge.preflight import PreparedScenario


def add_scenario(parser: argparse.ArgumentParser) -> None:
    """Add the scenario file, and an option for each of its keys."""
    parser.add_argument(
        "scenario", nargs="?", type=Path, metavar="SCENARIO.toml", help="a TOML file with the keys below"
    )
    for field in dataclasses.fields(Scenario):
        kind, key = type(field.default), KEYS[field.name]
        option = option_of(field.name)
        quiet = kind is tuple or key.is_file or field.name == "token_model"
        shown = key.help if quiet else f"{key.help} (default: {field.default})"
        if kind is tuple:
            metavar = key.one.rpartition("_")[2].upper()
            parser.add_argument(option, dest=field.name, action="append", metavar=metavar, help=shown)
        elif kind is bool:
            parser.add_argument(option, dest=field.name, action=argparse.BooleanOptionalAction, help=shown)
        else:
            parse, metavar = (file_name, "FILE") if key.is_file else (kind, kind.__name__.upper())
            parser.add_argument(option, dest=field.name, type=parse, metavar=metavar, help=shown)


def scenario_of(args: argparse.Namespace) -> Scenario:
    """Return the scenario that the command line asks for. Raise ScenarioError."""
    scenario = load_scenario(args.scenario) if args.scenario else Scenario()
    options = {field.name: getattr(args, field.name) for field in dataclasses.fields(Scenario)}
    return scenario.with_options({key: tuple(v) if type(v) is list else v for key, v in options.items()})


def prepare_of(args: argparse.Namespace) -> "PreparedScenario":
    """Return the prepared scenario of the command line. Raise UsageError, which names the file if there is one, and
    DeviceError."""
    from serving.edge.preflight import prepare

    scenario = scenario_of(args)
    try:
        return prepare(scenario)
    except (UsageError, DeviceError) as error:
        if args.scenario is None:
            raise
        raise located(error, args.scenario) from error
