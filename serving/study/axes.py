"""Axes and variants of a study: settings by their dotted names, one list of values an axis, or a table of them a
variant.

A name is a key of the scenario (`tau`) that counts in virtual time, one of the workload after its tables
(`workload.output.mean`), or `load`: how many times as many requests a second, or users, as the workload says.
"""

import json
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from serving.scenario.key import keys_of
from serving.scenario.listen_options import ListenOptions
from serving.scenario.options import KEYS
from serving.scenario.scenario_file import UnknownKey, scenario_value
from serving.toml_table import COUNT, FACTOR, MOST, POSITIVE, TomlTable

LOAD, WORKLOAD = "load", "workload"
Settings = dict[str, Any]
Axes = dict[str, list[Any]]
MOST_VALUES = 10_000
# What only a server has, and virtual time does not: varied, it would be compared by nothing but its name. A scenario's
# file may have it, as it is also a server's. (`api_keys` say whose requests limits of keys hold for.)
OF_SERVERS = frozenset(keys_of(ListenOptions)) - {"api_keys"} | {
    *("speed", "token_ahead", "text", "recording", "token_sources", "standby_sources"),
    *("edges", "front_end", "front_end_port", "vllm_options"),
}
VARIABLE = tuple(name for name in KEYS if name not in OF_SERVERS)


def axes_of(table: TomlTable) -> Axes:
    """Return the values of each axis."""
    below = table.table("axes")
    return {} if below is None else {name: _values(name, *place) for name, place in _leaves(below)}


def variants_of(table: TomlTable) -> dict[str, Settings]:
    """Return the settings of each variant."""
    below = table.table("variants")
    found: dict[str, Settings] = {}
    for name in below.values if below else ():
        assert below is not None
        of_one = below.table(name)
        assert of_one is not None
        found[name] = {key: _setting(key, *place) for key, place in _leaves(of_one)}
    return found


def as_toml(value: Any) -> str:
    """Return a value as a study's file has it."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{json.dumps(key)} = {as_toml(each)}' for key, each in value.items())} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(as_toml, value))}]"
    return json.dumps(value, ensure_ascii=False, default=str)


def combinations(axes: Axes) -> Iterator[Settings]:
    """Yield all combinations of the axes' values, the last axis fastest."""
    for values in product(*axes.values()):
        yield dict(zip(axes, values, strict=True))


def _leaves(table: TomlTable, prefix: str = "") -> Iterator[tuple[str, tuple[TomlTable, str]]]:
    """Dotted names below a table, with where they stand. Of the workload's tables each may hold others."""
    for key, value in table.values.items():
        name = prefix + key
        if isinstance(value, dict) and name.partition(".")[0] == WORKLOAD and not _is_range(value):
            yield from _leaves(table.below(key, value), f"{name}.")
        else:
            yield name, (table, key)


def _is_range(value: dict[str, Any]) -> bool:
    return "from" in value and "to" in value


def _values(name: str, table: TomlTable, key: str) -> list[Any]:
    if name in KEYS and KEYS[name].is_secret:
        raise table.error(key, "is secret, and tables show what is on an axis: let variants have it, which have names.")
    value = table.get(key)
    if isinstance(value, dict) and _is_range(value):
        value = _range(table.below(key, value))
    if not isinstance(value, list) or not value:
        raise table.wrong(key, value, "a list of values, or a range such as { from = 1, to = 32 }")
    return [_setting(name, table, key, each) for each in value]


def _setting(name: str, table: TomlTable, key: str, value: Any = None) -> Any:
    """Parse one value of a setting (of a variant, its only one), as far as it can be checked by itself."""
    value = table.get(key) if value is None else value
    if name == LOAD:
        return table.checked(key, value, FACTOR)
    if name.startswith(f"{WORKLOAD}."):
        return value
    if name in OF_SERVERS:
        raise table.error(key, "is a server's alone: nothing in virtual time turns on it, so it is not to be varied.")
    try:
        return scenario_value(name, value, table.where(key), (LOAD, WORKLOAD), VARIABLE)
    except UnknownKey as error:
        beside = f"Beside these: `{LOAD}`, and `{WORKLOAD}.` with a key of the workload."
        raise table.failure(f"{error} {beside}") from error


def _range(table: TomlTable) -> list[Any]:
    """Parse a range: whole numbers from one to another, or `count` numbers, spaced evenly or (`log`) by equal
    factors."""
    log = table.flag("log", False)
    allowed = POSITIVE if log else None
    ends = [table.get(key) for key in ("from", "to")]
    for key, end in zip(("from", "to"), ends, strict=True):
        if type(end) not in (int, float) or not abs(end) <= MOST or (allowed and not allowed.ok(end)):
            raise table.wrong(key, end, allowed.words if allowed else "a number")
    first, last = ends
    if not first < last:
        raise table.wrong("to", last, f"above `from`, which is {first}")
    whole = type(first) is int and type(last) is int
    count = table.whole("count", COUNT, last - first + 1 if whole and not log else None)
    table.end()
    if count is None:
        raise table.wrong("count", None, "how many values: only whole numbers are counted one by one")
    # Of a single value it would be `from`, and never `to`.
    if not 2 <= count <= MOST_VALUES:
        raise table.wrong("count", count, f"from 2 to {MOST_VALUES}")
    points = np.geomspace(first, last, count) if log else np.linspace(first, last, count)
    return list(dict.fromkeys(round(point) for point in points.tolist())) if whole else points.tolist()
