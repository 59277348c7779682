"""The choice of transport for an endpoint: HTTP or gRPC."""

from serving.load.client import Transport
from serving.load.http import HttpTransport
from serving.load.options import LoadOptions


def connect(options: LoadOptions) -> Transport:
    """Return the transport for the options' address."""
    if options.address.is_grpc:
        from serving.load.grpc import GrpcTransport  # Only here, so that an HTTP run does not load gRPC.

        return GrpcTransport(options)
    return HttpTransport(options)
