"""gRPC transport: `foreserve.v1.OpenAI`, whose messages mirror OpenAI's JSON field for field."""

from collections.abc import Sequence
from time import monotonic
from typing import Any

import grpc
from google.protobuf import json_format

from serving.api.pb.foreserve.v1 import metrics_pb2, metrics_pb2_grpc, openai_pb2, openai_pb2_grpc
from serving.load.client import RequestTimes
from serving.load.options import LoadError, LoadOptions, OptionError
from serving.load.request import LoadRequest, body
from serving.load.sse import message_of

LIST_TIMEOUT_S = 30
METRICS_TIMEOUT_S = 10
CHANNEL = [
    # Metrics of many devices are longer than what gRPC takes by itself, 4 MiB.
    ("grpc.max_receive_message_length", -1),
    # By itself it looks for a server that went away ever less often, up to every two minutes, and fails requests until
    # then, though the server may be there again.
    ("grpc.initial_reconnect_backoff_ms", 250),
    ("grpc.max_reconnect_backoff_ms", 250),
]


class GrpcTransport:
    """A transport that sends all requests over one gRPC channel."""

    def __init__(self, options: LoadOptions) -> None:
        self.options = options
        target = options.address.netloc
        if options.address.scheme == "grpcs":
            self.channel = grpc.aio.secure_channel(target, options.trust.grpc_credentials(), CHANNEL)
        else:
            self.channel = grpc.aio.insecure_channel(target, CHANNEL)
        self.stub: Any = openai_pb2_grpc.OpenAIStub(self.channel)  # type: ignore[no-untyped-call]
        self.measures: Any = metrics_pb2_grpc.MetricsStub(self.channel)  # type: ignore[no-untyped-call]
        self.metadata = _bearer(options.api_key)
        chat = options.endpoint == "chat"
        self.message = openai_pb2.ChatCompletionRequest if chat else openai_pb2.CompletionRequest
        self.call = self.stub.StreamChatCompletion if chat else self.stub.StreamCompletion
        self.is_output = _is_chat_output if chat else _is_output
        self._message(LoadRequest(0.0, "", 1), "")  # Refuses options that do not fit before the run, not in it.

    async def models(self) -> Sequence[str]:
        """Return the names that ListModels gives. Raise LoadError if it fails."""
        try:
            reply = await self.stub.ListModels(
                openai_pb2.ListModelsRequest(), metadata=self.metadata, timeout=LIST_TIMEOUT_S
            )
        except grpc.aio.AioRpcError as error:
            said = f"{error.code().name}, {message_of(error.details() or '')}"
            raise LoadError(f"{self.options.url} does not list its models: {said}.") from error
        return [model.id for model in reply.data]

    async def stream(self, request: LoadRequest, model: str, times: RequestTimes) -> None:
        """Send the request and fill `times`; cancelling the task cancels the call."""
        try:
            metadata = [*request.headers, *_bearer(request.api_key or self.options.api_key)]
            async for chunk in self.call(self._message(request, model), metadata=metadata):
                self._see(times, monotonic(), chunk)
        except grpc.aio.AioRpcError as error:
            # Of an answer that had begun it says that this was cut, not that nobody is there.
            cut = error.code() is grpc.StatusCode.UNAVAILABLE and times.end_s > 0
            times.fail("stream" if cut else error.code().name, message_of(error.details() or ""))

    async def metrics(self) -> str | None:
        """Return what GetMetrics gives; None if the server has no such service."""
        try:
            reply = await self.measures.GetMetrics(
                metrics_pb2.GetMetricsRequest(), metadata=self.metadata, timeout=METRICS_TIMEOUT_S
            )
        except grpc.aio.AioRpcError:
            return None
        return str(reply.text)

    async def close(self) -> None:
        """Close the channel."""
        await self.channel.close()

    def _message(self, request: LoadRequest, model: str) -> Any:
        try:
            return json_format.ParseDict(body(request, self.options, model), self.message())
        except json_format.ParseError as error:
            raise OptionError(f"--extra-body must fit the gRPC service: {error}.") from error

    def _see(self, times: RequestTimes, at_s: float, chunk: Any) -> None:
        usage = None
        if chunk.HasField("usage"):
            usage = chunk.usage.prompt_tokens, chunk.usage.completion_tokens
        if chunk.choices:
            if times.call_parts is not None:
                times.call_parts += map(_call_part, chunk.choices[0].delta.tool_calls)
            times.see(at_s, self.is_output(chunk.choices[0]), usage)
        elif usage:
            times.prompt_tokens, times.output_tokens = usage


def _bearer(api_key: str | None) -> list[tuple[str, str]]:
    return [("authorization", f"Bearer {api_key}")] if api_key else []


def _is_output(choice: Any) -> bool:
    return bool(choice.text or not choice.finish_reason)


def _is_chat_output(choice: Any) -> bool:
    delta = choice.delta
    return bool(delta.content or delta.reasoning or delta.tool_calls or not (delta.role or choice.finish_reason))


def _call_part(part: Any) -> dict[str, Any]:
    function = {"name": part.function.name, "arguments": part.function.arguments}
    return {"index": part.index, "id": part.id, "function": function}
