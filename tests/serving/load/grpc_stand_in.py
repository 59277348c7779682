"""A stand-in for a gRPC server of `foreserve.v1.OpenAI`; the model's name says what it does.

`python grpc_stand_in.py STEP_S` serves on a free port and prints its address.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

import grpc

from serving.api.pb.foreserve.v1 import metrics_pb2, metrics_pb2_grpc, openai_pb2, openai_pb2_grpc


class GrpcStandIn(openai_pb2_grpc.OpenAIServicer, metrics_pb2_grpc.MetricsServicer):
    """`metrics` is what GetMetrics answers; without it, there is no such service."""

    def __init__(self, step_s: float = 0.0, metrics: list[str] | None = None) -> None:
        self.step_s, self.metrics = step_s, metrics or []
        self.seen: list[Any] = []
        self.metadata: list[dict[str, Any]] = []

    async def start(self) -> str:
        """Its URL."""
        self.server = grpc.aio.server()
        openai_pb2_grpc.add_OpenAIServicer_to_server(self, self.server)
        if self.metrics:
            metrics_pb2_grpc.add_MetricsServicer_to_server(self, self.server)
        port = self.server.add_insecure_port("127.0.0.1:0")
        await self.server.start()
        return f"grpc://127.0.0.1:{port}"

    async def stop(self) -> None:
        await self.server.stop(None)

    async def ListModels(self, request: Any, context: Any) -> Any:
        return openai_pb2.ModelList(data=[openai_pb2.Model(id="good")])

    async def GetMetrics(self, request: Any, context: Any) -> Any:
        text = self.metrics.pop(0) if len(self.metrics) > 1 else self.metrics[0]
        return metrics_pb2.MetricsText(text=text)

    async def StreamCompletion(self, request: Any, context: Any) -> AsyncIterator[Any]:
        self.seen.append(request)
        self.metadata.append(dict(context.invocation_metadata()))
        if request.model == "missing":
            await context.abort(grpc.StatusCode.NOT_FOUND, "There is no model missing.")
        if request.model == "silent":
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED)
        if request.model == "clears":
            await context.abort(grpc.StatusCode.INTERNAL, "\x1b[2J Out of luck.")
        for i in range(request.max_tokens):
            await asyncio.sleep(self.step_s)
            if i == 2 and request.model == "drops":
                await context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
            finish = "length" if i == request.max_tokens - 1 else None
            yield openai_pb2.Completion(choices=[openai_pb2.CompletionChoice(index=0, text=" w", finish_reason=finish)])
        yield openai_pb2.Completion(usage=_usage(request))

    async def StreamChatCompletion(self, request: Any, context: Any) -> AsyncIterator[Any]:
        self.seen.append(request)
        self.metadata.append(dict(context.invocation_metadata()))
        yield _chat(role="assistant", content="")
        for _ in range(request.max_tokens):
            await asyncio.sleep(self.step_s)
            yield _chat(content=" w")
        yield openai_pb2.ChatCompletionChunk(usage=_usage(request))


def _chat(**delta: str) -> Any:
    choice = openai_pb2.ChatCompletionChunkChoice(index=0, delta=openai_pb2.ChatCompletionDelta(**delta))
    return openai_pb2.ChatCompletionChunk(choices=[choice])


def _usage(request: Any) -> Any:
    return openai_pb2.Usage(prompt_tokens=7, completion_tokens=request.max_tokens)


async def _main(step_s: float) -> None:
    server = GrpcStandIn(step_s)
    print(await server.start(), flush=True)
    await server.server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(_main(float(sys.argv[1])))
