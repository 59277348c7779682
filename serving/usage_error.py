"""Errors that are one sentence for a user. `cli.main` alone turns them into exit codes."""

from collections.abc import Sequence
from typing import TypeVar

Value = TypeVar("Value")


class UsageError(ValueError):
    """One sentence for whoever asked: what is wrong, where (file, line, field, option), and what is allowed. A command
    ends with exit code 2; what the device model says can't be is a `DeviceError` of its own instead. `keys` are those
    at fault of what the user wrote, the likeliest first."""

    def __init__(self, sentence: str, *keys: str) -> None:
        super().__init__(sentence)
        self.keys = keys


class CommandFailed(RuntimeError):
    """One sentence for whoever asked rightly, and got nothing: what did not work. A command ends with exit code 1."""


def given_again(values: Sequence[Value]) -> list[Value]:
    """Return the values that stand before their own place already: of each, once is enough."""
    return [value for place, value in enumerate(values) if value in values[:place]]
