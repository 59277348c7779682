"""Errors of a scenario's keys that the command line has set: they name its options."""

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from serving.scenario.options import option_of
from serving.usage_error import UsageError

KEY = re.compile(r"`(\w+)`")


@contextmanager
def naming_options(keys: Collection[str]) -> Iterator[None]:
    """Name the options of `keys` in the sentence of a `UsageError`, and the key beside one that is spelt otherwise."""
    try:
        yield
    except UsageError as error:
        error.args = (KEY.sub(lambda found: _named(found[1]) if found[1] in keys else found[0], str(error)),)
        raise


def _named(key: str) -> str:
    option = option_of(key)
    return f"`{option}`" if option == f"--{key}" else f"`{option}` ({key})"
