"""Serving objects of vLLM's, which do some of their work our way."""

from typing import Any


def extend(serving: Any, kind: type) -> None:
    """Have the methods of `kind` come before those of a serving object's own class, which they can call by `super`."""
    own = type(serving)
    serving.__class__ = type(own.__name__, (kind, own), {})
