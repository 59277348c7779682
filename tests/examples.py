"""How many examples a property is tried with: in proportion to the profile (`conftest`)."""

from typing import Any

from hypothesis import settings

USUAL = 100


def examples(number: int, **more: Any) -> settings:
    """So many in `make test`, where others have `USUAL`, and ten times as many in `make test-all`, as others have."""
    return settings(max_examples=number * settings.default.max_examples // USUAL, **more)
