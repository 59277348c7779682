"""The admin API over HTTP: JSON under /foreserve/v1, for the admin (`http_guard`)."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
from fastapi import APIRouter, HTTPException, Request

from serving.edge.device_admin import Admin
from serving.scenario.refused_action import RefusedAction

PREFIX = "/foreserve/v1"
T = TypeVar("T")


def admin_routes(admin: Admin) -> APIRouter:
    """Return the routes of an `Admin`."""
    routes = APIRouter(prefix=PREFIX)

    @routes.get("/devices")
    async def list_devices() -> dict[str, Any]:
        return admin.list_devices()

    @routes.post("/devices")
    async def add_devices(request: Request) -> dict[str, Any]:
        return await answer(admin.add_devices, said(await request.body(), "device"))

    @routes.delete("/devices/{index}")
    async def drain_device(index: int) -> dict[str, Any]:
        return await answer(admin.drain_device, index)

    @routes.get("/faults")
    async def list_faults() -> dict[str, Any]:
        return admin.list_faults()

    @routes.post("/faults")
    async def inject_fault(request: Request) -> dict[str, Any]:
        return await answer(admin.inject_fault, said(await request.body(), "fault"))

    @routes.delete("/faults/{id}")
    async def clear_fault(id: int) -> dict[str, Any]:
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
