"""Scenarios as TOML files have them."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from device_model.specs.spec import DeviceError
from serving.nearest_name import meant
from serving.scenario.key import key_fields
from serving.scenario.options import KEYS
from serving.scenario.scenario import Scenario
from serving.scenario.scenario_error import ScenarioError
from serving.toml_table import TomlTable
from serving.usage_error import UsageError

FIELDS = key_fields(Scenario)


class ScenarioTable(TomlTable):
    """A scenario's file."""

    what = "scenario"
    failure = ScenarioError


class UnknownKey(ScenarioError):
    """A key that no scenario has."""


def values_of(scenario: Scenario) -> dict[str, Any]:
    """Each key with its value."""
    return {each.name: getattr(scenario, each.name) for each in FIELDS}


def changed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of a scenario's keys that are not as they stand by default."""
    return {each.name: values[each.name] for each in FIELDS if values.get(each.name, each.default) != each.default}


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
    """Name a scenario's file, and the line of the key at fault, in what is wrong with it, or with the devices that it
    asks for; None: it has no file."""
    try:
        yield
    except (UsageError, DeviceError) as error:
        if path is None:
            raise
        raise ScenarioTable.load(path).located(ScenarioError.of(error)) from error


def scenario_value(
    key: str, value: Any, where: str, beside: Collection[str] = (), allowed: Collection[str] = tuple(KEYS)
) -> Any:
    """Return a key's value, which is allowed by itself. Raise `ScenarioError`, which begins with `where`. What is no
    key may also be meant to be one of those `beside`. Of all keys these are `allowed` here."""
    if key not in allowed:
        raise UnknownKey(
            f"{where}: there is no key `{key}`{meant(key, (*allowed, *beside))}; allowed are {', '.join(allowed)}."
        )
    found = KEYS[key].read(value, f"{where}: `{key}`")
    try:
        KEYS[key].parsed(key, found)
    except ScenarioError as error:
        raise ScenarioError(f"{where}: {error}", *error.keys) from error
    return found
