"""The `foreserve.v1.Admin` service: what an operator can do with devices while they serve."""

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from google.protobuf.message import Message

from serving.api.grpc.codec import M, reply
from serving.api.grpc.errors import CODES, BadRequest, StatusRefusal, refuse
from serving.api.pb.foreserve.v1 import admin_pb2 as pb
from serving.api.pb.foreserve.v1 import admin_pb2_grpc
from serving.edge.device_admin import Admin
from serving.scenario.refused_action import MalformedAction, RefusedAction

Context = grpc.aio.ServicerContext[Any, Any]


class AdminServicer(admin_pb2_grpc.AdminServicer):
    """Serves an `Admin` over gRPC."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    async def ListDevices(self, request: pb.ListDevicesRequest, context: Context) -> pb.DeviceList:
        """GET /foreserve/v1/devices"""
        return reply(pb.DeviceList, self._admin.list_devices())

    async def AddDevices(self, request: pb.AddDevicesRequest, context: Context) -> pb.DeviceList:
        """POST /foreserve/v1/devices"""
        return await answer(pb.DeviceList, lambda: self._admin.add_devices(said(request, "device")), context)

    async def DrainDevice(self, request: pb.DrainDeviceRequest, context: Context) -> pb.Device:
        """DELETE /foreserve/v1/devices/{index}"""
        return await answer(pb.Device, lambda: self._admin.drain_device(said(request, "index")), context)

    async def ListFaults(self, request: pb.ListFaultsRequest, context: Context) -> pb.FaultList:
        """GET /foreserve/v1/faults"""
        return reply(pb.FaultList, self._admin.list_faults())

    async def InjectFault(self, request: pb.InjectFaultRequest, context: Context) -> pb.Fault:
        """POST /foreserve/v1/faults"""
        return await answer(pb.Fault, lambda: self._admin.inject_fault(said(request, "fault")), context)

    async def ClearFault(self, request: pb.ClearFaultRequest, context: Context) -> pb.Fault:
        """DELETE /foreserve/v1/faults/{id}"""
        return await answer(pb.Fault, lambda: self._admin.clear_fault(said(request, "id")), context)


def said(request: Message, field: str) -> Any:
    """Return a field of a request. Raise `MalformedAction` if it is not there."""
    if not request.HasField(field):
        raise MalformedAction(f"`{field}` is missing.")
    return getattr(request, field)


async def answer(kind: type[M], call: Callable[[], Awaitable[dict[str, Any]]], context: Context) -> M:
    """Return the answer to an admin call, or abort the call with its refusal."""
    try:
        return reply(kind, await call())
    except RefusedAction as refused:
        await refuse(context, refusal_of(refused))


def refusal_of(refused: RefusedAction) -> StatusRefusal:
    """Return the status for what the admin has refused."""
    if isinstance(refused, MalformedAction):
        field = str(refused).split("`")[1]
        return BadRequest({field: str(refused)}, str(refused))
    return StatusRefusal(CODES[refused.http_status], str(refused))
