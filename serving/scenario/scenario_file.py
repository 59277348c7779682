"""Scenarios as TOML files have them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from serving.scenario.key import key_fields
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
    kinds = {f.name: type(f.default) for f in key_fields(Scenario)}
    if key not in kinds:
        raise UnknownKey(f"{where}: there is no key `{key}`; allowed are {', '.join(kinds)}.")
    # Of what may be a number or a word, a number is as good as its digits.
    known = str(value) if key == "depth" and type(value) is int else value
    return _checked(known, kinds[key], f"{where}: `{key}`")


def _checked(value: Any, kind: type, what: str) -> Any:
    names = {
        str: "a string",
        int: "a whole number",
        float: "a number",
        tuple: "a list of strings",
        bool: "true or false",
    }
    if kind is float and type(value) is int:
        value = float(value)
    if kind is tuple and isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    if type(value) is not kind:
        raise ScenarioError(f"{what} is {value!r}: it must be {names[kind]}.")
    return value
