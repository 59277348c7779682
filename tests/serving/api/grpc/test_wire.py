"""Chunks past the tasks that serve a call: in order, and refused while the client has not taken the last one."""

import asyncio
import gc
from collections.abc import AsyncIterator
from typing import Any

import grpc

from serving.api.grpc.openai_service import _put_text
from serving.api.grpc.wire import GrpcWire
from serving.api.pb.foreserve.v1 import openai_pb2 as pb
from serving.api.pb.foreserve.v1 import openai_pb2_grpc

HEAD = 'data: {"id": "c", "object": "text_completion", "created": 1, "model": "m", "choices": [{"index": 0, "text": '
TAIL = "}]}\n\n"
CHANNEL = [("grpc.http2.write_buffer_size", 1024), ("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 1024)]


class Writes(openai_pb2_grpc.OpenAIServicer):
    """Writes `count` numbers of `width` digits as fast as it can, and those that it may not write on the slow way."""

    def __init__(self, count: int, width: int) -> None:
        self._count, self._width = count, width
        self.refused = 0

    async def StreamCompletion(self, request: pb.CompletionRequest, context: Any) -> None:
        wire = GrpcWire(context, pb.Completion, _put_text)
        write = wire.writer(HEAD, TAIL)
        for number in range(self._count):
            if not write(f"{number:0{self._width}d}"):
                self.refused += 1
                await wire.write(pb.Completion(choices=[pb.CompletionChoice(text=f"{number:0{self._width}d}")]))
            await asyncio.sleep(0)


async def read(servicer: Writes, pause_s: float) -> list[str]:
    server = grpc.aio.server()
    openai_pb2_grpc.add_OpenAIServicer_to_server(servicer, server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=CHANNEL) as channel:
        stub = openai_pb2_grpc.OpenAIStub(channel)  # type: ignore[no-untyped-call]
        stream: AsyncIterator[pb.Completion] = stub.StreamCompletion(pb.CompletionRequest(model="m"))
        texts = []
        async for chunk in stream:
            texts.append(chunk.choices[0].text)
            await asyncio.sleep(pause_s)
    await server.stop(None)
    return texts


def test_texts_come_whole_and_in_order_whichever_way_they_go() -> None:
    servicer = Writes(count=300, width=6)
    assert [int(text) for text in asyncio.run(read(servicer, 0.0))] == list(range(300))
    # Whoever has not taken the last text gets the next one on the slow way.
    assert servicer.refused > 0


def test_a_slow_reader_holds_no_more_than_its_window() -> None:
    servicer = Writes(count=100, width=4_000)
    assert [int(text) for text in asyncio.run(read(servicer, 0.005))] == list(range(100))
    assert servicer.refused > 0


async def paced(refused: list[bool]) -> list[pb.Completion]:
    server = grpc.aio.server()

    class Paced(openai_pb2_grpc.OpenAIServicer):
        async def StreamCompletion(self, request: pb.CompletionRequest, context: Any) -> None:
            write = GrpcWire(context, pb.Completion, _put_text).writer(HEAD, TAIL)
            for number in range(5):
                refused.append(not write(str(number)))
                await asyncio.sleep(0.2)

    openai_pb2_grpc.add_OpenAIServicer_to_server(Paced(), server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = openai_pb2_grpc.OpenAIStub(channel)  # type: ignore[no-untyped-call]
        chunks = [chunk async for chunk in stub.StreamCompletion(pb.CompletionRequest(model="m"))]
    await server.stop(None)
    return chunks


def test_a_paced_stream_takes_the_short_way_alone() -> None:
    refused: list[bool] = []
    chunks = asyncio.run(paced(refused))
    assert [chunk.choices[0].text for chunk in chunks] == list("01234") and not any(refused)
    assert {(chunk.id, chunk.model, chunk.choices[0].index) for chunk in chunks} == {("c", "m", 0)}


class Left:
    """The context of a call whose client leaves while a message is on its way."""

    async def write(self, message: Any) -> None:
        await asyncio.sleep(0)
        raise grpc.aio.UsageError("RPC already finished.")


def test_a_client_that_leaves_while_its_text_is_on_its_way_is_no_error_of_ours() -> None:
    logged: list[dict[str, Any]] = []

    async def leave() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: logged.append(context))
        write = GrpcWire(Left(), pb.Completion, _put_text).writer(HEAD, TAIL)  # type: ignore[arg-type]
        assert write("a") and not write("b")
        await asyncio.sleep(0.01)
        del write
        gc.collect()

    asyncio.run(leave())
    assert logged == []
