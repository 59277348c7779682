"""Actors that die come back: how to wait for that, and how to say it."""

import asyncio
from collections.abc import Awaitable, Callable

from ray.exceptions import RayError

RETRY_S = 0.1


async def persist(attempt: Callable[[], Awaitable[None]]) -> None:
    """Try until it works: a restarting actor refuses calls until it is there."""
    while True:
        try:
            return await attempt()
        except RayError:
            await asyncio.sleep(RETRY_S)


def summary(error: Exception) -> str:
    """The last line of an error that Ray has wrapped: the one that says what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
