"""`foreserve call`: a gRPC method, found by reflection; JSON in, and JSON out as the answers come."""

import json

import grpc
from google.protobuf import json_format
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from serving.nearest_name import meant
from serving.security.client_trust import Trust
from serving.usage_error import CommandFailed

# The metrics of many devices are longer than gRPC's 4 MiB.
ANY_LENGTH = [("grpc.max_receive_message_length", -1)]
Metadata = tuple[tuple[str, str | bytes], ...]


def call(target: str, trust: Trust, method: str, request: str, metadata: Metadata) -> None:
    """Call `method` of `target` and print its answers. Raise CommandFailed."""
    try:
        with _channel(target, trust) as channel:
            _call(channel, method, request, metadata)
    except grpc.RpcError as error:
        # A call that fails is also the error that says why.
        raise CommandFailed(f"{error.code().name}: {error.details()}") from error  # type: ignore[attr-defined]


def _channel(target: str, trust: Trust) -> grpc.Channel:
    """Open a channel to HOST:PORT, with TLS after `grpcs://`, or without any scheme if `trust` names files."""
    scheme, marked, address = target.rpartition("://")
    if scheme not in ("", "grpc", "grpcs"):
        raise CommandFailed(f"{target!r} is not allowed; allowed is HOST:PORT, grpc://HOST:PORT or grpcs://HOST:PORT.")
    if scheme == "grpcs" or ((trust.ca_file or trust.client_cert) and not marked):
        return grpc.secure_channel(address, trust.grpc_credentials(), ANY_LENGTH)
    return grpc.insecure_channel(address, ANY_LENGTH)


def _call(channel: grpc.Channel, method: str, request: str, metadata: Metadata) -> None:
    descriptor = _find(channel, method)
    message = _parse(request, GetMessageClass(descriptor.input_type))
    invoke: grpc.UnaryStreamMultiCallable[Message, Message] = channel.unary_stream(
        f"/{method.lstrip('/')}",
        request_serializer=lambda m: m.SerializeToString(),
        response_deserializer=GetMessageClass(descriptor.output_type).FromString,
    )
    # One answer is a stream of one.
    for answer in invoke(message, metadata=metadata):
        print(_to_json(answer), flush=True)


def _parse(request: str, kind: type[Message]) -> Message:
    try:
        return json_format.Parse(request, kind())
    except json_format.ParseError as error:
        # Of a field that does not exist, the lines that follow list all that do.
        reason = str(error).splitlines()[0].rstrip(". ")
        raise CommandFailed(f"the request is no JSON of a {kind.DESCRIPTOR.full_name}: {reason}.") from error


def _find(channel: grpc.Channel, method: str) -> MethodDescriptor:
    database = ProtoReflectionDescriptorDatabase(channel)
    service, _, name = method.lstrip("/").partition("/")
    services = sorted(database.get_services())
    if service not in services:
        raise CommandFailed(
            f"there is no service {service!r}{meant(service, services)}; there are {', '.join(services)}."
        )
    found = DescriptorPool(database).FindServiceByName(service)
    if name not in found.methods_by_name:
        methods = list(found.methods_by_name)
        raise CommandFailed(f"{service} has no method {name!r}{meant(name, methods)}; it has {', '.join(methods)}.")
    return found.methods_by_name[name]


def _to_json(message: Message) -> str:
    return json.dumps(json_format.MessageToDict(message, preserving_proto_field_name=True), ensure_ascii=False)
