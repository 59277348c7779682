"""Scenarios as TOML files have them."""

import dataclasses
import re
import tomllib
from pathlib import Path
from typing import Any

from serving.scenario.scenario import Scenario
from serving.scenario.scenario_error import ScenarioError


def values_of(scenario: Scenario) -> dict[str, Any]:
    """Each key with its value."""
    return {each.name: getattr(scenario, each.name) for each in dataclasses.fields(scenario)}


def load_scenario(path: Path) -> Scenario:
    """Load the scenario in a TOML file.

    Raise `ScenarioError`, naming file, line and key, for what is not TOML, unknown, or not of the right kind.
    """
    try:
        text = path.read_text(encoding="utf-8")
        table = tomllib.loads(text)
    except OSError as error:
        raise ScenarioError(f"Cannot read the scenario {path}: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path} is not TOML: {error}.") from error
    values = {key: scenario_value(key, value, f"{path}, line {_line_of(key, text)}") for key, value in table.items()}
    try:
        return Scenario(**values)
    except ScenarioError as error:
        raise located(error, path) from error


def scenario_value(key: str, value: Any, where: str) -> Any:
    """Return a key's value, of its kind. Raise `ScenarioError`, which begins with `where`."""
    kinds = {f.name: type(f.default) for f in dataclasses.fields(Scenario)}
    if key not in kinds:
        raise ScenarioError(f"{where}: there is no key `{key}`; allowed are {', '.join(kinds)}.")
    # Of what may be a number or a word, a number is as good as its digits.
    known = str(value) if key == "depth" and type(value) is int else value
    return _checked(known, kinds[key], f"{where}: `{key}`")


def located(error: Exception, path: Path) -> ScenarioError:
    """Return an error with the file and line of the key it is about: the first that it names, if the file has it."""
    text = path.read_text(encoding="utf-8")
    # Of what has no file of that name, the kind is the key.
    named = re.findall(r"`(\w+)`|There is no (\w+)", str(error))
    keys = [key for pair in named for key in pair if key in tomllib.loads(text)]
    where = f"{path}, line {_line_of(keys[0], text)}" if keys else str(path)
    return ScenarioError(f"{where}: {error}")


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


def _line_of(key: str, text: str) -> int:
    """Return the line on which a top-level key is set; the first, where it is written in a way that hides it."""
    starts = (f"{key} ", f"{key}=", f"[{key}", f'"{key}"')
    return next((n for n, line in enumerate(text.splitlines(), 1) if line.lstrip().startswith(starts)), 1)
