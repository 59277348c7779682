"""Scenarios as TOML files have them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from serving.scenario.key import key_fields
from serving.scenario.options import KEYS
from serving.scenario.scenario import Scenario
from serving.scenario.scenario_error import ScenarioError
from serving.toml_table import TomlTable


class ScenarioTable(TomlTable):
    """A scenario's file."""

    what = "scenario"
    failure = ScenarioError


class UnknownKey(ScenarioError):
    """A key that no scenario has."""


def values_of(scenario: Scenario) -> dict[str, Any]:
    """Each key with its value."""
    return {each.name: getattr(scenario, each.name) for each in key_fields(scenario)}


def load_scenario(path: Path) -> Scenario:
    """Load the scenario in a TOML file.

    Raise `ScenarioError`, naming file, line and key, for what is not TOML, unknown, or not of the right kind.
    """
    table = ScenarioTable.load(path)
    values = {key: scenario_value(key, value, table.where(key)) for key, value in table.values.items()}
    with located_in(path):
        return Scenario(**values)


@contextmanager
def located_in(path: Path | None) -> Iterator[None]:
    """Name a scenario's file, and the line of the key at fault, in a `ScenarioError`; None: it has no file."""
    try:
        yield
    except ScenarioError as error:
        if path is None:
            raise
        raise ScenarioTable.load(path).located(error) from error


def scenario_value(key: str, value: Any, where: str) -> Any:
    """Return a key's value, of its kind. Raise `ScenarioError`, which begins with `where`."""
    if key not in KEYS:
        raise UnknownKey(f"{where}: there is no key `{key}`; allowed are {', '.join(KEYS)}.")
    return KEYS[key].read(value, f"{where}: `{key}`")
