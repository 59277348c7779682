"""Does a server hold no more gRPC calls than it has room for, over however many connections they come?"""

import asyncio

import grpc
from grpc_health.v1 import health_pb2

from serving.api.grpc_server import MOST_BESIDE
from serving.process.server_process import ServerProcess

CHECK = "/grpc.health.v1.Health/Check"
PATIENCE_S = 60.0
# Of a server with two places in its queue.
MOST = 2 + MOST_BESIDE
CHANNELS, EACH = 3, 500


def test_calls_without_a_message_fill_no_memory_and_go_when_their_clients_do(small_emulator: ServerProcess) -> None:
    target = small_emulator.grpc_url.removeprefix("grpc://")

    async def answered() -> grpc.StatusCode:
        async with grpc.aio.insecure_channel(target) as channel:
            call = channel.unary_unary(CHECK)(health_pb2.HealthCheckRequest().SerializeToString(), timeout=PATIENCE_S)
            return await call.code()

    async def run() -> None:
        assert await answered() is grpc.StatusCode.OK
        # Each with a connection of its own.
        options = [("grpc.use_local_subchannel_pool", 1)]
        channels = [grpc.aio.insecure_channel(target, options) for _ in range(CHANNELS)]
        waiting = [asyncio.ensure_future(channel.stream_unary(CHECK)().code()) for channel in channels * EACH]
        beyond = CHANNELS * EACH - MOST
        async with asyncio.timeout(PATIENCE_S):
            refused = set[asyncio.Future[grpc.StatusCode]]()
            while len(refused) < beyond:
                done, _ = await asyncio.wait(set(waiting) - refused, return_when=asyncio.FIRST_COMPLETED)
                refused |= done
        assert {each.result() for each in refused} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert await answered() is grpc.StatusCode.RESOURCE_EXHAUSTED
        for channel in channels:
            await channel.close()
        async with asyncio.timeout(PATIENCE_S):
            while await answered() is not grpc.StatusCode.OK:
                await asyncio.sleep(0.1)

    asyncio.run(run())
