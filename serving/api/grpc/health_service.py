"""The standard health service: the emulation as a whole, whether it is `ready`, and each of its parts by name.

Not the library's: there, whoever watches and does not read holds a lock that `Check` waits for.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from serving.cluster.readiness import UP, Readiness

READY = "ready"
LOOK_S = 1.0
Status = health_pb2.HealthCheckResponse


class PartsHealth(health_pb2_grpc.HealthServicer):  # type: ignore[misc]
    """`services` and "" are served while the process is worth keeping; `ready`, and each part, while they are up."""

    def __init__(self, readiness: Readiness, services: Sequence[str]) -> None:
        self._readiness = readiness
        self._services = services
        self._known: dict[str, int] = {}
        self._looked_s = 0.0

    async def Check(self, request: Any, context: Any) -> Any:
        """Answer with the status now."""
        status = self._look().get(request.service)
        if status is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"There is no service or part {request.service!r}.")
        return Status(status=status)

    async def List(self, request: Any, context: Any) -> Any:
        """Return the status of everything that has one."""
        told = {service: Status(status=status) for service, status in self._told().items()}
        return health_pb2.HealthListResponse(statuses=told)

    async def Watch(self, request: Any, context: Any) -> None:
        """Answer with the status now, and each change of it."""
        last = None
        while True:
            # However many watch, there is one look in a while.
            is_new = time.monotonic() - self._looked_s < LOOK_S / 2
            status = (self._known if is_new else self._look()).get(request.service, Status.SERVICE_UNKNOWN)
            if status != last:
                await context.write(Status(status=status))
                last = status
            await asyncio.sleep(LOOK_S)

    def _told(self) -> dict[str, int]:
        """Return the status of each service and part."""
        told = dict.fromkeys(("", *self._services), self._readiness.live) | {READY: self._readiness.ready}
        told |= {name: state in (UP, "serving") for name, state in self._readiness.parts().items()}
        return {service: Status.SERVING if well else Status.NOT_SERVING for service, well in told.items()}

    def _look(self) -> dict[str, int]:
        """Return the same, with parts that are gone."""
        self._known = dict.fromkeys(self._known, Status.NOT_SERVING) | self._told()
        self._looked_s = time.monotonic()
        return self._known
