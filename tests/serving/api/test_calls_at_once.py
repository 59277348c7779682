"""Does a server hold no more gRPC calls than it has room for, over however many connections they come?"""

import asyncio

import grpc
import pytest
from grpc_health.v1 import health_pb2

from serving.api.grpc.call_places import MOST_ENDLESS, MOST_PUBLIC
from serving.process.server_process import ServerProcess

pytestmark = pytest.mark.alone

CHECK = "/grpc.health.v1.Health/Check"
PATIENCE_S = 60.0
WATCH = "/grpc.health.v1.Health/Watch"
# Of a server with two places in its queue, which needs a key for others.
MOST = {CHECK: MOST_PUBLIC, WATCH: MOST_ENDLESS}
CHANNELS, EACH = 3, 500


@pytest.mark.parametrize("method", [pytest.param(CHECK, marks=pytest.mark.slow), WATCH])
def test_calls_without_a_message_fill_no_memory_and_go_when_their_clients_do(
    small_emulator: ServerProcess, method: str
) -> None:
    target = small_emulator.grpc_url.removeprefix("grpc://")

    async def answered(method: str = method) -> grpc.StatusCode:
        async with grpc.aio.insecure_channel(target) as channel:
            call = channel.unary_stream(method)(health_pb2.HealthCheckRequest().SerializeToString(), timeout=PATIENCE_S)
            try:
                # A watch goes on.
                return grpc.StatusCode.OK if await call.read() is not grpc.aio.EOF else await call.code()
            except grpc.aio.AioRpcError as error:
                return error.code()
            finally:
                call.cancel()

    async def run() -> None:
        assert await answered() is grpc.StatusCode.OK
        # Each with a connection of its own.
        options = [("grpc.use_local_subchannel_pool", 1)]
        channels = [grpc.aio.insecure_channel(target, options) for _ in range(CHANNELS)]
        waiting = [asyncio.ensure_future(channel.stream_unary(method)().code()) for channel in channels * EACH]
        beyond = CHANNELS * EACH - MOST[method]
        async with asyncio.timeout(PATIENCE_S):
            refused = set[asyncio.Future[grpc.StatusCode]]()
            while len(refused) < beyond:
                done, _ = await asyncio.wait(set(waiting) - refused, return_when=asyncio.FIRST_COMPLETED)
                refused |= done
        assert {each.result() for each in refused} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert await answered() is grpc.StatusCode.RESOURCE_EXHAUSTED
        # Others have places of their own.
        other = {CHECK: WATCH, WATCH: CHECK}[method]
        assert await answered(other) is grpc.StatusCode.OK
        for channel in channels:
            await channel.close()
        async with asyncio.timeout(PATIENCE_S):
            while await answered() is not grpc.StatusCode.OK:
                await asyncio.sleep(0.1)

    asyncio.run(run())
