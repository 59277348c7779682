"""gRPC clients that send too much, too slowly, or do not read."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest

from serving.api.grpc.bounds import MOST_METADATA_BYTES, CallBounds, channel_options
from serving.api.grpc_server import ArrivalStamp
from serving.call import Call, stamp
from serving.clock import WallClock
from serving.scenario.bound_options import BoundOptions

BOUNDS = BoundOptions(max_request_bytes=100_000, max_connections=2, request_timeout_s=0.5, stall_timeout_s=0.5)
ONE, MANY, WRITTEN = "/test/One", "/test/Many", "/test/Written"
REFUSED, REFUSED_STREAM = "/test/Refused", "/test/RefusedStream"
FEW, FEW_WRITTEN = "/test/Few", "/test/FewWritten"
LEFT = ("x-ratelimit-remaining-requests", "7")
Code = grpc.StatusCode


class Echo(grpc.GenericRpcHandler):
    """Answers with what it was sent, in two ways without an end; or refuses."""

    def __init__(self) -> None:
        self.ended: list[str] = []
        self.calls: list[Call] = []

    def stamp(self, *said: Any) -> None:
        self.calls.append(stamp(WallClock(0.0), *said))
        self.calls[-1].answer.update([LEFT])

    def service(self, handler_call_details: Any) -> Any:
        kinds = {
            ONE: grpc.unary_unary_rpc_method_handler(self.one, bytes, bytes),
            MANY: grpc.unary_stream_rpc_method_handler(self.many, bytes, bytes),
            WRITTEN: grpc.unary_stream_rpc_method_handler(self.written, bytes, bytes),
            FEW: grpc.unary_stream_rpc_method_handler(self.few, bytes, bytes),
            FEW_WRITTEN: grpc.unary_stream_rpc_method_handler(self.few_written, bytes, bytes),
            REFUSED: grpc.unary_unary_rpc_method_handler(self.refused, bytes, bytes),
            REFUSED_STREAM: grpc.unary_stream_rpc_method_handler(self.refused_stream, bytes, bytes),
        }
        return kinds.get(handler_call_details.method)

    async def one(self, request: bytes, context: Any) -> bytes:
        return request

    async def refused(self, request: bytes, context: Any) -> None:
        await context.abort(Code.NOT_FOUND, "There is none.")

    async def refused_stream(self, request: bytes, context: Any) -> Any:
        await context.abort(Code.NOT_FOUND, "There is none.")
        yield request

    async def few(self, request: bytes, context: Any) -> Any:
        yield request

    async def few_written(self, request: bytes, context: Any) -> None:
        await context.write(request)

    async def many(self, request: bytes, context: Any) -> Any:
        try:
            while True:
                yield request
        finally:
            self.ended.append(MANY)

    async def written(self, request: bytes, context: Any) -> None:
        try:
            while True:
                await context.write(request)
        finally:
            self.ended.append(WRITTEN)


def run(use: Callable[[int, Echo], Awaitable[None]]) -> None:
    """`await use(port, echo)`, with a server there."""

    async def main() -> None:
        echo = Echo()
        interceptors = ArrivalStamp(echo), CallBounds(BOUNDS)
        server = grpc.aio.server(interceptors=interceptors, options=channel_options(BOUNDS))
        server.add_generic_rpc_handlers((echo,))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            async with asyncio.timeout(30):
                await use(port, echo)
        finally:
            await server.stop(None)

    asyncio.run(main())


def channel(port: int) -> grpc.aio.Channel:
    # Each with a connection of its own.
    return grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.use_local_subchannel_pool", 1)])


def test_messages_and_metadata_are_bounded() -> None:
    async def use(port: int, echo: Echo) -> None:
        async with channel(port) as client:
            one = client.unary_unary(ONE)
            assert len(await one(b"x" * 100_000)) == 100_000
            for message, metadata in ((b"x" * 100_001, ()), (b"", (("x", "y" * MOST_METADATA_BYTES),))):
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await one(message, metadata=metadata)
                assert caught.value.code() is Code.RESOURCE_EXHAUSTED

    run(use)


def test_a_request_that_does_not_come_is_not_waited_for() -> None:
    async def use(port: int, echo: Echo) -> None:
        async with channel(port) as client:
            # As a stream, whose message the client never sends.
            call = client.stream_unary(ONE)()
            with pytest.raises(grpc.aio.AioRpcError, match=r"longer than 0\.5 s") as caught:
                await call
            assert caught.value.code() is Code.DEADLINE_EXCEEDED
            assert await client.unary_unary(ONE)(b"x") == b"x"

    run(use)


def test_a_call_keeps_the_status_with_which_it_was_ended_for_its_trace() -> None:
    async def use(port: int, echo: Echo) -> None:
        async with channel(port) as client:
            assert await client.unary_unary(ONE)(b"x") == b"x"
            for call in (client.unary_unary(REFUSED)(b"x"), client.stream_unary(ONE)()):
                with pytest.raises(grpc.aio.AioRpcError):
                    await call
            with pytest.raises(grpc.aio.AioRpcError, match="There is none"):
                await client.unary_stream(REFUSED_STREAM)(b"x").read()
        assert [(call.route, call.status) for call in echo.calls] == [
            *((ONE, ""), (REFUSED, "NOT_FOUND"), (ONE, "DEADLINE_EXCEEDED"), (REFUSED_STREAM, "NOT_FOUND"))
        ]

    run(use)


def test_however_a_call_ends_it_carries_what_http_says_in_headers() -> None:
    async def use(port: int, echo: Echo) -> None:
        async with channel(port) as client:
            streams = [client.unary_stream(method)(b"x") for method in (FEW, FEW_WRITTEN, REFUSED_STREAM)]
            for stream in streams:
                with contextlib.suppress(grpc.aio.AioRpcError):
                    assert [part async for part in stream] == [b"x"]
            calls = [client.unary_unary(method)(b"x") for method in (ONE, REFUSED)] + streams
            assert [LEFT in tuple(await call.trailing_metadata()) for call in calls] == [True] * len(calls)
            assert [(await call.code()).name for call in calls] == ["OK", "NOT_FOUND", "OK", "OK", "NOT_FOUND"]

    run(use)


@pytest.mark.parametrize("method", [MANY, WRITTEN])
def test_who_does_not_read_is_ended_and_nobody_else_is(method: str) -> None:
    async def use(port: int, echo: Echo) -> None:
        async with channel(port) as client, channel(port) as other:
            stalled = client.unary_stream(method)(b"x" * 10_000)
            assert await stalled.read()
            reader = other.unary_stream(method)(b"x")
            while not echo.ended:
                assert await reader.read() == b"x"
            assert echo.ended == [method]
            assert await reader.read() == b"x"
            reader.cancel()
            with pytest.raises(grpc.aio.AioRpcError, match=r"not read for 0\.5 s"):
                while await stalled.read():
                    pass

    run(use)


def test_connections_are_bounded() -> None:
    async def use(port: int, echo: Echo) -> None:
        clients = [channel(port) for _ in range(3)]
        calls = [client.unary_unary(ONE)(b"x", timeout=15) for client in clients]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert sum(answer == b"x" for answer in answers) == BOUNDS.max_connections
        for client in clients:
            await client.close()

    run(use)
