"""The standard health service: the emulation as a whole, whether it is `ready`, and each of its parts by name."""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from grpc_health.v1 import health, health_pb2

from serving.cluster.readiness import UP, Readiness

READY = "ready"
LOOK_S = 1.0
Status = health_pb2.HealthCheckResponse


class PartsHealth(health.aio.HealthServicer):  # type: ignore[misc]
    """`services` and "" are served while the process is worth keeping; `ready`, and each part, while they are up."""

    def __init__(self, readiness: Readiness, services: Sequence[str]) -> None:
        super().__init__()
        self._readiness = readiness
        self._services = services
        self._refreshing: asyncio.Task[None] | None = None
        self._watchers = 0

    async def Check(self, request: Any, context: Any) -> Any:
        """Answer with the status now."""
        await self._refresh()
        return await super().Check(request, context)

    async def List(self, request: Any, context: Any) -> Any:
        """Return the status of everything that has one."""
        told = {service: health_pb2.HealthCheckResponse(status=status) for service, status in self._told().items()}
        return health_pb2.HealthListResponse(statuses=told)

    async def Watch(self, request: Any, context: Any) -> None:
        """Answer with the status now, and each change of it."""
        await self._refresh()
        with self._refreshed():
            await super().Watch(request, context)

    @contextlib.contextmanager
    def _refreshed(self) -> Iterator[None]:
        """Look often at what changes for as long as anybody watches: at the end there is no Ray to ask."""
        self._watchers += 1
        if self._refreshing is None:
            self._refreshing = asyncio.create_task(self._refresh_often())
        try:
            yield
        finally:
            self._watchers -= 1
            if not self._watchers:
                self._refreshing.cancel()
                self._refreshing = None

    async def _refresh_often(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            await self._refresh()

    def _told(self) -> dict[str, int]:
        """Return the status of each service and part."""
        told = dict.fromkeys(("", *self._services), self._readiness.live) | {READY: self._readiness.ready}
        told |= {name: state in (UP, "serving") for name, state in self._readiness.parts().items()}
        return {service: Status.SERVING if well else Status.NOT_SERVING for service, well in told.items()}

    async def _refresh(self) -> None:
        told = self._told()
        gone = dict.fromkeys(self._server_status.keys() - told.keys(), Status.NOT_SERVING)
        for service, status in (told | gone).items():
            await self.set(service, status)
