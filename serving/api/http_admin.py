"""The admin API over HTTP: JSON under /foreserve/v1, for the admin (`http_guard`)."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
from fastapi import APIRouter, HTTPException, Request

from serving.api.openapi import body, refused
from serving.edge.device_admin import Admin
from serving.scenario.refused_action import RefusedAction

PREFIX = "/foreserve/v1"
T = TypeVar("T")


def admin_routes(admin: Admin) -> APIRouter:
    """Return the routes of an `Admin`."""
    routes = APIRouter(prefix=PREFIX)

    @routes.get("/devices", responses=refused(401, 403))
    async def list_devices() -> dict[str, Any]:
        """List all devices, lost ones included."""
        return admin.list_devices()

    @routes.post("/devices", responses=refused(400, 401, 403, 409, 413), openapi_extra=body("device"))
    async def add_devices(request: Request) -> dict[str, Any]:
        """Add devices, written as an entry of a scenario's `fleet`: all of them, or, if one fails, none."""
        return await answer(admin.add_devices, said(await request.body(), "device"))

    @routes.delete("/devices/{index}", responses=refused(400, 401, 403, 404, 409))
    async def drain_device(index: int) -> dict[str, Any]:
        """Send a device nothing more; it leaves with its last request."""
        return await answer(admin.drain_device, index)

    @routes.get("/faults", responses=refused(401, 403))
    async def list_faults() -> dict[str, Any]:
        """List the present and the coming faults."""
        return admin.list_faults()

    @routes.post("/faults", responses=refused(400, 401, 403, 404, 409, 413), openapi_extra=body("fault"))
    async def inject_fault(request: Request) -> dict[str, Any]:
        """Add a fault, written as an entry of a scenario's `faults`, with times counted from now."""
        return await answer(admin.inject_fault, said(await request.body(), "fault"))

    @routes.delete("/faults/{id}", responses=refused(400, 401, 403, 404, 409))
    async def clear_fault(id: int) -> dict[str, Any]:
        """End a fault."""
        return await answer(admin.clear_fault, id)

    return routes


def said(body: bytes, field: str) -> str:
    """Return the one field that the body of a request has, a string; raise a 400 for anything else."""
    wanted = f'it must be {{"{field}": "..."}}, with the one field `{field}`.'
    try:
        # With its type, nothing that is nested is read at all, however deep it is.
        fields = msgspec.json.decode(body, type=dict[str, str])
    except ValueError as error:  # DecodeError, or UnicodeDecodeError in a string
        raise HTTPException(400, f"The body can't be read ({error}): {wanted}") from error
    if fields.keys() != {field}:
        raise HTTPException(400, f"The body has other fields: {wanted}")
    return fields[field]


async def answer(call: Callable[[T], Awaitable[dict[str, Any]]], argument: T) -> dict[str, Any]:
    """Return the answer to an admin call. Raise HTTPException with its refusal."""
    try:
        return await call(argument)
    except RefusedAction as refused:
        raise HTTPException(refused.http_status, str(refused)) from refused
