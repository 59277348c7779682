"""The health service: who watches is told of changes, and nobody is asked once no one does."""

import asyncio
import contextlib
from types import SimpleNamespace
from typing import Any

import pytest
from grpc_health.v1 import health_pb2

from serving.api.grpc import health_service
from serving.api.grpc.health_service import PartsHealth, Status


class Asked:
    """A readiness that counts how often it is asked."""

    ready = True

    def __init__(self) -> None:
        self.times = 0

    @property
    def live(self) -> bool:
        """Be alive."""
        self.times += 1
        return True

    def parts(self) -> dict[str, str]:
        """Return no parts."""
        return {}


def test_what_changes_is_looked_for_only_while_somebody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_service, "LOOK_S", 0.01)
    asked, told = Asked(), list[Any]()
    service = PartsHealth(asked, ["a"])  # type: ignore[arg-type]

    async def write(answer: Any) -> None:
        told.append(answer)

    async def watch() -> None:
        await service.Watch(health_pb2.HealthCheckRequest(service="a"), SimpleNamespace(write=write))

    async def main() -> None:
        for _ in range(2):
            one, other = asyncio.create_task(watch()), asyncio.create_task(watch())
            await asyncio.sleep(0.05)
            await end(one)
            assert await asked_meanwhile()
            await end(other)
            assert not await asked_meanwhile()

    async def asked_meanwhile() -> int:
        before = asked.times
        await asyncio.sleep(0.1)
        return asked.times - before

    asyncio.run(main())
    assert len(told) == 4


async def end(task: "asyncio.Task[None]") -> None:
    """Cancel a task, and wait until it has ended."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def test_a_part_that_has_gone_does_not_serve() -> None:
    asked, parts = Asked(), {"device 0": "up", "device 1": "up"}
    asked.parts = lambda: parts  # type: ignore[method-assign]
    service = PartsHealth(asked, ["a"])  # type: ignore[arg-type]

    async def status(name: str) -> int:
        return int((await service.Check(health_pb2.HealthCheckRequest(service=name), SimpleNamespace())).status)

    async def main() -> None:
        assert await status("device 1") == Status.SERVING
        del parts["device 1"]
        assert (await status("device 0"), await status("device 1")) == (Status.SERVING, Status.NOT_SERVING)

    asyncio.run(main())


def test_who_watches_and_does_not_read_keeps_nobody_from_an_answer() -> None:
    service = PartsHealth(Asked(), ["a"])  # type: ignore[arg-type]

    async def never(answer: Any) -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        names = ("", "a", "ready", "unheard of")
        stuck = [
            asyncio.create_task(
                service.Watch(health_pb2.HealthCheckRequest(service=name), SimpleNamespace(write=never))
            )
            for name in names
        ]
        await asyncio.sleep(0)
        async with asyncio.timeout(5.0):
            answer = await service.Check(health_pb2.HealthCheckRequest(service="ready"), SimpleNamespace())
        assert answer.status == Status.SERVING
        for each in stuck:
            await end(each)

    asyncio.run(main())
