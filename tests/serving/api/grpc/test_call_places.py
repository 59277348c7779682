"""Calls of which more come at once than anybody has had time to look at."""

import asyncio
import sys
import time
from typing import Any

import grpc
import pytest

from serving.api.grpc.call_places import CallPlaces, backlog_options

CALLS = 3000
CLIENT = f"""
import asyncio, collections, sys
import grpc

async def run():
    channels = [grpc.aio.insecure_channel(sys.argv[1], [("grpc.use_local_subchannel_pool", 1)]) for _ in range(3)]
    calls = [channel.stream_unary("/test/Any")() for channel in channels * {CALLS // 3}]
    print("begun", flush=True)
    codes = collections.Counter(code.name for code in await asyncio.gather(*(call.code() for call in calls)))
    print(*(f"{{name}}={{count}}" for name, count in codes.items()), flush=True)

asyncio.run(run())
"""


class Full(grpc.GenericRpcHandler):
    """Refuses each call."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        async def refuse(requests: Any, context: Any) -> None:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "There is no place.")

        return grpc.stream_unary_rpc_method_handler(refuse)


@pytest.mark.slow
def test_a_server_that_is_slow_to_look_cancels_no_call() -> None:
    async def run() -> str:
        server = grpc.aio.server(interceptors=[CallPlaces(1)], options=backlog_options(1))
        server.add_generic_rpc_handlers((Full(),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        command = [sys.executable, "-c", CLIENT, f"127.0.0.1:{port}"]
        client = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        assert client.stdout is not None
        assert await client.stdout.readline() == b"begun\n"
        # Meanwhile gRPC's own threads take calls in.
        time.sleep(2)
        codes = (await client.stdout.readline()).decode().strip()
        await client.wait()
        await server.stop(None)
        return codes

    assert asyncio.run(run()) == f"RESOURCE_EXHAUSTED={CALLS}"
