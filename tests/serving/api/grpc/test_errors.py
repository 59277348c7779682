"""What calls get when something goes wrong below, and what goes on below when a client goes away."""

import asyncio
from types import SimpleNamespace

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from vllm.entrypoints.serve.engine.protocol import ErrorInfo, ErrorResponse
from vllm.entrypoints.serve.exception_handling.error_response import create_error_response
from vllm.exceptions import MaxQueuedTokensError, QueueOverflowError, VLLMValidationError
from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

from serving.api.grpc.guard import GrpcGuard
from serving.api.grpc.openai_service import OpenAIServicer
from serving.api.grpc.parse_errors import ParseErrors
from serving.api.pb.foreserve.v1 import openai_pb2 as pb
from serving.api.pb.foreserve.v1 import openai_pb2_grpc
from serving.edge.refusals import ENDING, GivenUp
from serving.security.access import Access
from serving.security.api_keys import digest

Code = grpc.StatusCode
REQUEST = pb.CompletionRequest(model="m", prompt={"string_value": "hi"}, n=2)


class Full(QueueOverflowError):
    retry_after_s = 2.5


def run(create, use, errored=False, api_keys=()):
    """What `await use(channel)` gives, on a server whose vLLM is the coroutine `create`."""
    model = SimpleNamespace(max_model_len=4096)
    engine = SimpleNamespace(errored=errored, dead_error=EngineDeadError(), model_config=model)
    state = SimpleNamespace(
        openai_serving_models=None,
        openai_serving_chat=SimpleNamespace(create_chat_completion=create),
        openai_serving_completion=SimpleNamespace(create_completion=create),
    )

    async def main():
        server = grpc.aio.server(interceptors=[GrpcGuard(Access(tuple(map(digest, api_keys)))), ParseErrors()])
        openai_pb2_grpc.add_OpenAIServicer_to_server(OpenAIServicer(engine, state), server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                return await use(channel)
        finally:
            await server.stop(None)

    return asyncio.run(main())


def refusal(create, request=REQUEST, stream=False, **options):
    """The status of a call: code, text, and the one google.rpc detail."""

    async def use(channel):
        stub = openai_pb2_grpc.OpenAIStub(channel)
        call = stub.StreamCompletion(request) if stream else stub.CreateCompletion(request)
        with pytest.raises(grpc.aio.AioRpcError):
            await (call.read() if stream else call)
        status = await rpc_status.aio.from_call(call)
        return await call.code(), await call.details(), status.details

    return run(create, use, **options)


def detail(details, kind):
    (packed,) = details
    message = kind()
    assert packed.Unpack(message)
    return message


def raising(error):
    async def create(request, raw_request):
        raise error

    return create


def answering(answer):
    async def create(request, raw_request):
        return answer

    return create


def telling(event):
    async def create(request, raw_request):
        async def events():
            yield f"data: {event}\n\n"
            yield "data: [DONE]\n\n"

        return events()

    return create


@pytest.mark.parametrize(("error", "seconds"), [(Full(), 2.5), (QueueOverflowError(), 1), (MaxQueuedTokensError(), 1)])
@pytest.mark.parametrize("stream", [False, True])
def test_a_full_queue_tells_when_to_come_back(error, seconds, stream):
    code, _, details = refusal(raising(error), stream=stream)
    assert code is Code.RESOURCE_EXHAUSTED
    assert detail(details, error_details_pb2.RetryInfo).retry_delay.ToMilliseconds() == seconds * 1000


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("stream", [False, True])
def test_a_server_that_shuts_down_is_unavailable_and_says_so(told, stream):
    error = create_error_response(GivenUp(ENDING))
    create = raising(GivenUp(ENDING)) if not told else telling(error.model_dump_json()) if stream else answering(error)
    assert refusal(create, stream=stream)[:2] == (Code.UNAVAILABLE, ENDING)


def test_a_queue_that_fills_up_after_admission_is_told_in_the_stream():
    event = '{"error": {"message": "full", "type": "Too Many Requests", "code": 429}}'
    code, text, details = refusal(telling(event), stream=True)
    assert (code, text) == (Code.RESOURCE_EXHAUSTED, "full")
    assert detail(details, error_details_pb2.RetryInfo).retry_delay.seconds == 1


def test_a_dead_engine_is_unavailable():
    assert refusal(raising(EngineDeadError()))[0] is Code.UNAVAILABLE
    event = '{"error": {"message": "boom", "type": "InternalServerError", "code": 500}}'
    assert refusal(telling(event), stream=True, errored=True)[0] is Code.UNAVAILABLE
    assert refusal(telling(event), stream=True)[0] is Code.INTERNAL


def test_what_nobody_foresaw_is_internal():
    assert refusal(raising(RuntimeError("boom")))[0] is Code.INTERNAL


@pytest.mark.parametrize(
    ("error", "field"),
    [
        (VLLMValidationError("no", parameter="top_p"), "top_p"),
        (VLLMValidationError("too long", parameter="input_tokens"), "prompt"),
        (ValueError("n must be at least 1, got 0."), "n"),
        (ValueError("this prompt is bad"), ""),
    ],
)
def test_invalid_arguments_name_the_field(error, field):
    wrapped = EngineGenerateError()
    wrapped.__cause__ = error
    for each in (error, wrapped):
        code, text, details = refusal(raising(each))
        assert code is Code.INVALID_ARGUMENT and str(error) in text
        (violation,) = detail(details, error_details_pb2.BadRequest).field_violations
        assert violation.field == field


def test_a_response_that_is_an_error():
    error = ErrorInfo(message="no such model", type="NotFoundError", param="model", code=404)
    assert refusal(answering(ErrorResponse(error=error)))[:2] == (Code.NOT_FOUND, "no such model")


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        ({"temperature": float("nan")}, "temperature"),
        ({"seed": 1.5}, "seed"),
        ({"stop": {"number_value": 5}}, "stop"),
        ({"stream": True}, "stream"),
    ],
)
def test_requests_that_never_reach_vllm(bad, field):
    request = pb.CompletionRequest(prompt={"string_value": "hi"}, **bad)
    _, text, details = refusal(raising(AssertionError), request)
    assert field in text
    assert detail(details, error_details_pb2.BadRequest).field_violations[0].field == field


def test_long_error_texts_do_not_break_the_trailers():
    code, text, _ = refusal(raising(ValueError("é" * 100_000)))
    assert code is Code.INVALID_ARGUMENT and text == "é" * 500


@pytest.mark.parametrize("method", ["CreateCompletion", "StreamCompletion"])
def test_bytes_that_are_no_message(method):
    async def use(channel):
        multi = channel.unary_unary if method.startswith("Create") else channel.unary_stream
        call = multi(f"/foreserve.v1.OpenAI/{method}")(b"\xff\xff")
        return await call.code(), await call.details()

    code, text = run(raising(AssertionError), use)
    assert code is Code.INVALID_ARGUMENT and "CompletionRequest" in text


@pytest.mark.parametrize("header", [None, "Bearer", "Bearer wrong", "Basic right", "right", "Bearer right "])
def test_calls_without_a_key_are_unauthenticated(header):
    async def use(channel):
        metadata = (("authorization", header),) if header else ()
        stub = openai_pb2_grpc.OpenAIStub(channel)
        return [
            await call(REQUEST, metadata=metadata).code() for call in (stub.CreateCompletion, stub.StreamCompletion)
        ]

    assert run(raising(AssertionError), use, api_keys=["other", "right"]) == [Code.UNAUTHENTICATED] * 2


@pytest.mark.parametrize("header", ["Bearer right", "bearer right"])
def test_a_key_opens(header):
    async def use(channel):
        stub = openai_pb2_grpc.OpenAIStub(channel)
        return [chunk.id async for chunk in stub.StreamCompletion(REQUEST, metadata=(("authorization", header),))]

    assert run(telling('{"id": "x"}'), use, api_keys=["other", "right"]) == ["x"]


@pytest.mark.parametrize("waits_in", ["vllm", "grpc"])
def test_a_client_that_goes_away_closes_vllms_stream(waits_in):
    closed = asyncio.Event()

    async def create(request, raw_request):
        async def events():
            try:
                while True:
                    yield 'data: {"id": "' + "x" * 1_000_000 + '"}\n\n'
                    if waits_in == "vllm":
                        await asyncio.Event().wait()
            finally:
                closed.set()

        return events()

    async def use(channel):
        call = openai_pb2_grpc.OpenAIStub(channel).StreamCompletion(REQUEST)
        await call.read()
        await asyncio.sleep(0.1)
        call.cancel()
        await asyncio.wait_for(closed.wait(), 30)

    run(create, use)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["cancel", "deadline"])
def test_a_client_that_goes_away_cancels_an_unary_call(how):
    entered, cancelled = asyncio.Event(), asyncio.Event()

    async def create(request, raw_request):
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            # As vLLM does, to nobody's use.
            return ErrorResponse(error=ErrorInfo(message="Client disconnected", type="BadRequestError", code=400))

    async def use(channel):
        stub = openai_pb2_grpc.OpenAIStub(channel)
        # A deadline must not pass before the call has come, on a busy machine either.
        call = stub.CreateCompletion(REQUEST, timeout=5 if how == "deadline" else None)
        await asyncio.wait_for(entered.wait(), 30)
        if how == "cancel":
            call.cancel()
        await asyncio.wait_for(cancelled.wait(), 30)
        return await call.code()

    assert run(create, use) is (Code.CANCELLED if how == "cancel" else Code.DEADLINE_EXCEEDED)


def test_metadata_reaches_vllm_as_headers():
    seen = {}

    async def create(request, raw_request):
        seen.update(raw_request.headers)
        raise ValueError("enough")

    async def use(channel):
        stub = openai_pb2_grpc.OpenAIStub(channel)
        return await stub.CreateCompletion(REQUEST, metadata=(("x-request-id", "abc"),)).code()

    run(create, use)
    assert seen["x-request-id"] == "abc"
