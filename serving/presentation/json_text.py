"""Results as JSON, for other programs."""

import json
from math import isfinite
from typing import Any


def json_text(value: Any, indent: int = 2) -> str:
    """Return a value as JSON, which has no word for what is no number, or without end: that is null."""
    return json.dumps(_finite(value), indent=indent)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return value
