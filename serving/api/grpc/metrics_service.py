"""The `foreserve.v1.Metrics` service: the server's metrics, for whoever knows its gRPC port alone."""

from collections.abc import Callable
from typing import Any

import grpc
from prometheus_client import CollectorRegistry

from serving.api.http_metrics import parts_of
from serving.api.pb.foreserve.v1 import metrics_pb2 as pb
from serving.api.pb.foreserve.v1 import metrics_pb2_grpc


class MetricsServicer(metrics_pb2_grpc.MetricsServicer):
    """Serves a registry over gRPC."""

    def __init__(self, registry: CollectorRegistry, hear: Callable[[], None]) -> None:
        """`hear` is called first: the registry's observers may not have heard of the last moment yet."""
        self._registry, self._hear = registry, hear

    async def GetMetrics(
        self, request: pb.GetMetricsRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.MetricsText:
        """GET /metrics"""
        self._hear()
        return pb.MetricsText(text=b"".join([part async for part in parts_of(self._registry)]).decode())
