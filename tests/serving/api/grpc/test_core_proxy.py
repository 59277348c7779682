"""Does an edge in a process of its own hand on what the engine core answers, however long it is?"""

import asyncio
from pathlib import Path
from typing import Any

import grpc

from serving.api.grpc.core_proxy import CoreServices

METRICS = "/foreserve.v1.Metrics/GetMetrics"
ANYTHING = [("grpc.max_receive_message_length", -1)]
LENGTH = 5 << 20


class Core(grpc.GenericRpcHandler):
    """Answers with so many bytes."""

    def service(self, handler_call_details: Any) -> Any:
        async def answer(request: bytes, context: Any) -> bytes:
            return bytes(LENGTH)

        return grpc.unary_unary_rpc_method_handler(answer)


def test_an_answer_of_many_devices_is_handed_on(tmp_path: Path) -> None:
    async def run() -> None:
        path = tmp_path / "core"
        core, edge = grpc.aio.server(handlers=[Core()]), grpc.aio.server(interceptors=[CoreServices(str(path))])
        core.add_insecure_port(f"unix:{path}")
        port = edge.add_insecure_port("127.0.0.1:0")
        await core.start()
        await edge.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", ANYTHING) as client:
            assert len(await client.unary_unary(METRICS)(b"", timeout=30)) == LENGTH
        await edge.stop(None)
        await core.stop(None)

    asyncio.run(run())
