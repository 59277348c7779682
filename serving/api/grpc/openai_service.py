"""The `foreserve.v1.OpenAI` service: vLLM's own OpenAI server, spoken to over gRPC.

A request becomes the JSON that it mirrors, then vLLM's request class, then a call of the object that also serves HTTP:
validation, defaults, templates, stop strings and error texts are the same on both edges.
"""

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import grpc
import msgspec
from google.protobuf.message import Message
from starlette.requests import Request
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.completion.protocol import CompletionRequest
from vllm.entrypoints.serve.engine.protocol import ErrorInfo, ErrorResponse

from serving.api.grpc.bounds import UnreadAnswer
from serving.api.grpc.codec import event_json, reply, request_json
from serving.api.grpc.errors import BadRequest, StatusRefusal, refusal_of, refusal_told, refuse
from serving.api.grpc.wire import GrpcWire
from serving.api.guards.json_text import MOST_OBJECTS, count_objects, most_values
from serving.api.guards.validation_guard import validated
from serving.api.large_answers import finish
from serving.api.pb.foreserve.v1 import openai_pb2 as pb
from serving.api.pb.foreserve.v1 import openai_pb2_grpc
from serving.api.streams.plain_stream_split import TextEvent
from serving.call import current_call
from serving.edge.body_bounds import check_body

Context = grpc.aio.ServicerContext[Any, Any]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An OpenAI endpoint: vLLM's side of it, and our messages. `put_text` puts text into a choice of a chunk."""

    prompt: str
    request: Any
    create: Callable[..., Any]
    put_text: Callable[[Any, str], None]
    whole: type[pb.ChatCompletion] | type[pb.Completion]
    choice: type[pb.ChatCompletionChoice] | type[pb.CompletionChoice]
    chunk: type[pb.ChatCompletionChunk] | type[pb.Completion]


class OpenAIServicer(openai_pb2_grpc.OpenAIServicer):
    """Serves over gRPC what vLLM's `init_app_state` has put into `state`."""

    def __init__(self, engine: Any, state: Any, places: int = sys.maxsize) -> None:
        """`places` are those of the queue: a request cannot have more prompts."""
        self._places = places
        self._most_values = most_values(engine.model_config.max_model_len)
        chat, completion = state.openai_serving_chat, state.openai_serving_completion
        self._engine = engine
        self._models = state.openai_serving_models
        self._chat = Endpoint(
            "messages",
            ChatCompletionRequest,
            chat.create_chat_completion,
            _put_delta,
            pb.ChatCompletion,
            pb.ChatCompletionChoice,
            pb.ChatCompletionChunk,
        )
        self._completion = Endpoint(
            "prompt",
            CompletionRequest,
            completion.create_completion,
            _put_text,
            pb.Completion,
            pb.CompletionChoice,
            pb.Completion,
        )

    async def CreateChatCompletion(self, request: pb.ChatCompletionRequest, context: Context) -> Any:
        """POST /v1/chat/completions"""
        return await self._serve(self._chat, request, context, stream=False)

    async def StreamChatCompletion(self, request: pb.ChatCompletionRequest, context: Context) -> None:
        """POST /v1/chat/completions, streamed"""
        await self._serve(self._chat, request, context, stream=True)

    async def CreateCompletion(self, request: pb.CompletionRequest, context: Context) -> Any:
        """POST /v1/completions"""
        return await self._serve(self._completion, request, context, stream=False)

    async def StreamCompletion(self, request: pb.CompletionRequest, context: Context) -> None:
        """POST /v1/completions, streamed"""
        await self._serve(self._completion, request, context, stream=True)

    async def ListModels(self, request: pb.ListModelsRequest, context: Context) -> pb.ModelList:
        """GET /v1/models"""
        models = await self._models.show_available_models()
        return reply(pb.ModelList, models.model_dump(mode="json", exclude_none=True))

    async def GetModel(self, request: pb.GetModelRequest, context: Context) -> pb.Model:
        """GET /v1/models/{model}"""
        models = {model.id: model for model in (await self.ListModels(pb.ListModelsRequest(), context)).data}
        if request.model in models:
            return models[request.model]
        text = f"The model `{request.model}` does not exist. Valid aliases: {', '.join(models)}."
        await refuse(context, StatusRefusal(grpc.StatusCode.NOT_FOUND, text))

    async def _serve(self, endpoint: Endpoint, request: Message, context: Context, stream: bool) -> Any:
        """Answers a call: with what it returns, or, if it streams, with what it writes."""
        fields: dict[str, Any] = {}
        wire = GrpcWire(context, endpoint.chunk, endpoint.put_text)
        if stream and (call := current_call()):
            call.wire = wire
        try:
            fields.update(request_json(request, self._most_values))
            answer = await self._ask(endpoint, fields, context, stream)
            if not stream:
                return answer if isinstance(answer, Message) else whole_of(endpoint, answer)
            await self._write(endpoint, answer, wire)
        except UnreadAnswer:
            raise
        except Exception as error:
            refusal = refusal_of(error)
            if isinstance(refusal, BadRequest):
                refusal = refusal.naming(fields, endpoint.prompt)
            await refuse(context, refusal)

    async def _ask(self, endpoint: Endpoint, fields: dict[str, Any], context: Context, stream: bool) -> Any:
        """vLLM's answer: a response, or the events of a stream."""
        if fields.setdefault("stream", stream) is not stream:
            raise BadRequest({"stream": f"must be {str(stream).lower()} here, or left out"})
        check_body(fields, self._places)
        if (objects := count_objects(fields)) > MOST_OBJECTS:
            raise BadRequest({"": f"has {objects} objects, and may have {MOST_OBJECTS}"})
        if call := current_call():
            await self._engine.intake.enter(call)
        finish.set(partial(whole_of, endpoint))
        answer = await endpoint.create(validated(endpoint.request.model_validate, fields), _http_request(context))
        if (task := asyncio.current_task()) and task.cancelling():
            raise asyncio.CancelledError  # vLLM answers a cancelled call with an error that nobody waits for.
        if isinstance(answer, ErrorResponse):
            raise self._refusal(answer.error)
        return answer

    async def _write(self, endpoint: Endpoint, events: Any, wire: GrpcWire) -> None:
        try:
            form: Any = None
            async for event in events:
                if isinstance(event, TextEvent):
                    form = form or reply(endpoint.chunk, event_json(event) or {})
                    endpoint.put_text(form.choices[0], event.text)
                    await wire.write(form)
                    continue
                fields = event_json(event)
                if fields is None:
                    break
                if "error" in fields:
                    raise self._refusal(ErrorInfo(**fields["error"]))
                await wire.write(reply(endpoint.chunk, fields))
        finally:
            # A client that went away cancels us between two events; closing is what makes vLLM abort the request.
            await events.aclose()

    def _refusal(self, info: ErrorInfo) -> Exception:
        # Where vLLM has turned an exception into words, a dead engine is an internal error like any other.
        if info.code == 500 and self._engine.errored:
            return cast(Exception, self._engine.dead_error)
        return refusal_told(info)


def whole_of(endpoint: Endpoint, answer: Any) -> Message:
    """Return vLLM's answer as a message, made choice by choice: none takes so long that others would notice."""
    head = answer.model_copy(update={"choices": []}).model_dump(mode="json", exclude_none=True)
    whole: Any = reply(endpoint.whole, head)
    for choice in answer.choices:
        fields = msgspec.json.decode(choice.model_dump_json(exclude_none=True))
        whole.choices.append(reply(endpoint.choice, fields))
    return cast(Message, whole)


def _put_delta(choice: pb.ChatCompletionChunkChoice, text: str) -> None:
    choice.delta.content = text


def _put_text(choice: pb.CompletionChoice, text: str) -> None:
    choice.text = text


def _http_request(context: Context) -> Request:
    """Return the metadata as the headers that vLLM looks for: request id, session id, priority, trace parent."""
    metadata = context.invocation_metadata() or ()
    headers = [(name.encode(), value if isinstance(value, bytes) else value.encode()) for name, value in metadata]
    return Request({"type": "http", "headers": headers})
