"""Size of a JSON schema's grammar, as far as its text doesn't show it."""

import json
from collections.abc import Mapping
from typing import Any

from serving.edge.json_values import values_in

COUNTS = ("minProperties", "maxProperties")


def counted_properties(said: Any) -> int:
    """Return, summed over all objects in a schema (or a structural tag, or the JSON of either), the properties that
    they name times the most that they count: xgrammar has a rule for each property at each place.

    What is no JSON has none: vLLM refuses it.
    """
    try:
        schema = json.loads(said) if isinstance(said, str) else said
    except (ValueError, RecursionError):
        return 0
    return sum(_counted(each) for each in values_in(schema) if isinstance(each, Mapping))


def _counted(schema: Mapping[str, Any]) -> int:
    # A count may be written as 3.0; one below 0 counts nothing, and takes nothing from what others do.
    named, counts = schema.get("properties"), [schema.get(name) for name in COUNTS]
    most = max((count for count in counts if isinstance(count, int | float)), default=0)
    return int(len(named) * min(len(named), max(0, most))) if isinstance(named, Mapping) else 0
