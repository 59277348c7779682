"""The gRPC edge as clients see it."""

import json
import time

import grpc
import pytest
from google.protobuf import json_format, message_factory
from google.protobuf.descriptor_pool import DescriptorPool
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from grpc_status import rpc_status
from smg_grpc_proto import vllm_engine_pb2, vllm_engine_pb2_grpc

from serving.api.pb.foreserve.v1 import openai_pb2 as pb
from serving.api.pb.foreserve.v1 import openai_pb2_grpc
from tests.conftest import CONTEXT, MODEL, QUEUE
from tests.patience import until

Code = grpc.StatusCode
LONG = 900  # tokens: they take longer than what is to happen meanwhile


@pytest.fixture(scope="session")
def grpc_target(emulator):
    return emulator.grpc_url.removeprefix("grpc://")


@pytest.fixture(scope="session")
def unfinished(vllm):
    return lambda: vllm.GetServerInfo(vllm_engine_pb2.GetServerInfoRequest()).active_requests


@pytest.fixture(scope="session")
def channel(grpc_target):
    with grpc.insecure_channel(grpc_target) as channel:
        yield channel


@pytest.fixture(scope="session")
def openai(channel):
    return openai_pb2_grpc.OpenAIStub(channel)


@pytest.fixture(scope="session")
def vllm(channel):
    return vllm_engine_pb2_grpc.VllmEngineStub(channel)


def chat(**fields):
    default = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 6, "ignore_eos": True}
    return json_format.ParseDict(default | fields, pb.ChatCompletionRequest())


def completion(**fields):
    default = {"model": MODEL, "prompt": "hello", "max_tokens": 6, "ignore_eos": True}
    return json_format.ParseDict(default | fields, pb.CompletionRequest())


def texts(chunks):
    """The text of each choice, put together from a stream."""
    made = {}
    for choice in (choice for chunk in chunks for choice in chunk.choices):
        text = choice.text if isinstance(choice, pb.CompletionChoice) else choice.delta.content
        made[choice.index] = made.get(choice.index, "") + text
    return made


def test_a_chat_and_its_stream_say_the_same(openai):
    whole = openai.CreateChatCompletion(chat(temperature=0))
    chunks = list(openai.StreamChatCompletion(chat(temperature=0, stream_options={"include_usage": True})))
    assert whole.object == "chat.completion" and chunks[0].object == "chat.completion.chunk"
    assert whole.choices[0].message.role == chunks[0].choices[0].delta.role == "assistant"
    assert texts(chunks) == {0: whole.choices[0].message.content}
    assert whole.choices[0].finish_reason == chunks[-2].choices[0].finish_reason == "length"
    assert whole.usage == chunks[-1].usage and whole.usage.completion_tokens == 6
    assert not any(chunk.HasField("usage") for chunk in chunks[:-1])


def test_a_completion_and_its_stream_say_the_same(openai):
    whole = openai.CreateCompletion(completion(temperature=0))
    chunks = list(openai.StreamCompletion(completion(temperature=0, stream_options={"include_usage": True})))
    assert texts(chunks) == {0: whole.choices[0].text}
    assert whole.usage == chunks[-1].usage and whole.usage.completion_tokens == 6


def test_several_choices_with_a_seed_are_the_same_again(openai):
    fields = {"n": 3, "seed": 7, "temperature": 1.5}
    made = [{choice.index: choice.text for choice in openai.CreateCompletion(completion(**fields)).choices}]
    made.append(texts(openai.StreamCompletion(completion(**fields))))
    assert made[0] == made[1] and sorted(made[0]) == [0, 1, 2] and len(set(made[0].values())) > 1


def test_a_stop_string_ends_the_text_before_it(openai):
    text = openai.CreateCompletion(completion(temperature=1, seed=3)).choices[0].text
    choice = openai.CreateCompletion(completion(temperature=1, seed=3, stop=[text[-2:]])).choices[0]
    assert choice.finish_reason == "stop" and choice.stop_reason.string_value == text[-2:]
    assert choice.text == text[: text.index(text[-2:])]


def test_logprobs_are_those_of_the_http_edge(openai, client):
    asked = {"prompt": [5, 6, 7], "max_tokens": 6, "temperature": 0, "logprobs": 3, "echo": True}
    ours = json_format.MessageToDict(openai.CreateCompletion(completion(**asked)).choices[0].logprobs)
    theirs = client.completions.create(model=MODEL, extra_body={"ignore_eos": True}, **asked).choices[0].logprobs
    assert ours["tokens"] == theirs.tokens and len(theirs.tokens) == 9
    assert ours["token_logprobs"] == theirs.token_logprobs
    assert ours["top_logprobs"] == theirs.top_logprobs
    # Of each position that of its token, and then of the most likely ones.
    for values in [list(each.values()) for each in theirs.top_logprobs if each]:
        assert values[1:] == sorted(values[1:], reverse=True) and all(value <= 0 for value in values)


def test_logprobs_of_chat_and_completions(openai):
    content = openai.CreateChatCompletion(chat(logprobs=True, top_logprobs=2)).choices[0].logprobs.content
    assert len(content) == 6 and all(len(token.top_logprobs) == 2 and token.logprob < 0 for token in content)
    logprobs = openai.CreateCompletion(completion(prompt=[5, 6], logprobs=1, echo=True)).choices[0].logprobs
    assert len(logprobs.tokens) == 8 and logprobs.token_logprobs[0] is None and logprobs.token_logprobs[1] < 0


def test_an_answer_of_many_logprobs_is_that_of_the_http_edge(openai, client):
    asked = {"prompt": "Of a law", "max_tokens": 30, "seed": 3, "logprobs": 20, "n": 2}
    ours = openai.CreateCompletion(completion(**asked))
    theirs = client.completions.create(model=MODEL, extra_body={"ignore_eos": True}, **asked)
    assert ours.usage.completion_tokens == theirs.usage.completion_tokens == 60
    for one, other in zip(ours.choices, theirs.choices, strict=True):
        assert (one.index, one.text, one.finish_reason) == (other.index, other.text, other.finish_reason)
        assert list(one.logprobs.token_logprobs) == pytest.approx(other.logprobs.token_logprobs)
        assert len(one.logprobs.top_logprobs) == 30
    whole = openai.CreateChatCompletion(chat(logprobs=True, top_logprobs=20, max_tokens=30))
    content = whole.choices[0].logprobs.content
    assert len(content) == 30 and all(len(token.top_logprobs) == 20 for token in content)


def test_token_ids_come_back(openai):
    choice = openai.CreateCompletion(completion(prompt=[5, 6], return_token_ids=True, min_tokens=6)).choices[0]
    assert list(choice.prompt_token_ids) == [5, 6] and len(choice.token_ids) == 6


def test_models(openai):
    (model,) = openai.ListModels(pb.ListModelsRequest()).data
    assert (model.id, model.object, model.max_model_len) == (MODEL, "model", CONTEXT)
    assert openai.GetModel(pb.GetModelRequest(model=MODEL)).id == MODEL


def test_every_service_is_healthy(channel):
    health = health_pb2_grpc.HealthStub(channel)
    for service in ("", "foreserve.v1.OpenAI", "vllm.grpc.engine.VllmEngine"):
        reply = health.Check(health_pb2.HealthCheckRequest(service=service))
        assert reply.status == health_pb2.HealthCheckResponse.SERVING
        watch = health.Watch(health_pb2.HealthCheckRequest(service=service))
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        watch.cancel()


def test_a_client_made_from_reflection_alone(channel):
    database = ProtoReflectionDescriptorDatabase(channel)
    pool = DescriptorPool(database)
    services = set(database.get_services())
    assert {"foreserve.v1.OpenAI", "vllm.grpc.engine.VllmEngine", "grpc.health.v1.Health"} <= services
    method = pool.FindServiceByName("foreserve.v1.OpenAI").FindMethodByName("StreamChatCompletion")
    request, reply = (message_factory.GetMessageClass(kind) for kind in (method.input_type, method.output_type))
    call = channel.unary_stream(
        f"/{method.containing_service.full_name}/{method.name}",
        request_serializer=request.SerializeToString,
        response_deserializer=reply.FromString,
    )
    asked = json_format.Parse(json_format.MessageToJson(chat()), request())
    assert sum(bool(chunk.choices[0].delta.content) for chunk in call(asked)) > 0


def refusal(method, request):
    with pytest.raises(grpc.RpcError) as caught:
        list(method(request))  # An unary call raises when it is made, a stream when it is read.
    return caught.value.code(), rpc_status.from_call(caught.value)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"temperature": -1}, "temperature"),
        ({"top_p": 2}, "top_p"),
        ({"n": 0}, "n"),
        ({"n": QUEUE + 1}, "n"),
        ({"top_k": -7}, "top_k"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": CONTEXT + 1}, "max_tokens"),
        ({"min_tokens": 50}, "min_tokens"),
        ({"presence_penalty": 9}, "presence_penalty"),
        ({"stop_token_ids": [10**6]}, "stop_token_ids"),
        ({"response_format": {"type": "poem"}}, "response_format.type"),
        ({"prompt": "word " * CONTEXT}, "prompt"),
        ({"prompt": {"text": "a"}}, "prompt"),
    ],
)
@pytest.mark.parametrize("method", ["CreateCompletion", "StreamCompletion"])
def test_bad_fields_are_named(openai, method, fields, field):
    code, status = refusal(getattr(openai, method), completion(**fields))
    detail = error_details_pb2.BadRequest()
    assert code is Code.INVALID_ARGUMENT and status.details[0].Unpack(detail)
    assert [violation.field for violation in detail.field_violations][:1] == [field]


def test_a_chat_over_the_context(openai):
    asked = chat(messages=[{"role": "user", "content": "a " * (CONTEXT + 88)}])
    code, status = refusal(openai.CreateChatCompletion, asked)
    detail = error_details_pb2.BadRequest()
    assert code is Code.INVALID_ARGUMENT and status.details[0].Unpack(detail)
    assert detail.field_violations[0].field == "messages" and str(CONTEXT) in status.message


def test_models_that_are_not_served(openai):
    assert refusal(openai.CreateChatCompletion, chat(model="none"))[0] is Code.NOT_FOUND
    assert refusal(openai.StreamCompletion, completion(model="none"))[0] is Code.NOT_FOUND
    assert refusal(openai.GetModel, pb.GetModelRequest(model="none"))[0] is Code.NOT_FOUND


def test_a_full_queue_says_when_to_come_back(openai, unfinished):
    stream = openai.StreamCompletion(completion(n=QUEUE, max_tokens=LONG))
    next(stream)
    code, status = refusal(openai.CreateCompletion, completion())
    detail = error_details_pb2.RetryInfo()
    assert code is Code.RESOURCE_EXHAUSTED and status.details[0].Unpack(detail) and detail.retry_delay.seconds >= 1
    stream.cancel()
    until(lambda: not unfinished())


@pytest.mark.parametrize("n", [1, 2])
def test_a_client_that_goes_away_is_aborted(openai, unfinished, n):
    # Where this machine was busy for as long as an answer took, there was nothing to cut off.
    for _ in range(5):
        next(stream := openai.StreamChatCompletion(chat(max_tokens=LONG, n=n)))
        there = unfinished()
        stream.cancel()
        until(lambda: not unfinished())
        if there:
            break
    assert there == n


def test_a_deadline_aborts(openai, unfinished):
    code, _ = refusal(lambda asked: openai.CreateCompletion(asked, timeout=0.2), completion(max_tokens=LONG))
    assert code is Code.DEADLINE_EXCEEDED
    until(lambda: not unfinished())


def generate(stream=False, ids=(5, 6, 7), **params):
    return vllm_engine_pb2.GenerateRequest(
        request_id=f"test-{time.monotonic_ns()}",
        tokenized={"input_ids": ids},
        sampling_params={"max_tokens": 6, "ignore_eos": True, **params},
        stream=stream,
    )


def test_vllm_engine_honours_sampling_parameters(vllm):
    greedy = [next(vllm.Generate(generate(temperature=0))).complete.output_ids for _ in range(2)]
    assert greedy[0] == greedy[1] and len(greedy[0]) == 6
    (whole,) = vllm.Generate(generate(temperature=0, logit_bias={9: 100}, logprobs=2, prompt_logprobs=1))
    assert list(whole.complete.output_ids) == [9] * 6
    assert len(whole.complete.output_logprobs.top_logprobs) == 6 and len(whole.complete.input_logprobs.token_ids) == 3
    (whole,) = vllm.Generate(generate(temperature=0, logit_bias={9: 100}, stop_token_ids=[9], min_tokens=3))
    assert len(whole.complete.output_ids) == 4 and whole.complete.matched_token_id == 9
    assert len({tuple(whole.complete.output_ids) for whole in vllm.Generate(generate(n=3, seed=1, temperature=2))}) == 3
    (whole,) = vllm.Generate(generate(regex="ab+", grammar_from_first_token=True))
    assert whole.complete.output_ids


def test_vllm_engine_truncates_token_prompts(vllm):
    (whole,) = vllm.Generate(generate(ids=range(5, 105), truncate_prompt_tokens=10))
    assert whole.complete.prompt_tokens == 10
    assert refusal(vllm.Generate, generate(truncate_prompt_tokens=CONTEXT + 1))[0] is Code.INVALID_ARGUMENT


def test_vllm_engine_streams_aborts_and_informs(vllm, unfinished):
    for _ in range(5):
        request = generate(stream=True, max_tokens=LONG)
        stream = vllm.Generate(request)
        assert len(next(stream).chunk.token_ids) >= 1
        vllm.Abort(vllm_engine_pb2.AbortRequest(request_ids=[request.request_id]))
        *_, last = stream
        until(lambda: not unfinished())
        if last.complete.finish_reason != "length":
            break
    assert last.complete.finish_reason == "abort"
    assert vllm.HealthCheck(vllm_engine_pb2.HealthCheckRequest()).healthy
    assert vllm.GetModelInfo(vllm_engine_pb2.GetModelInfoRequest()).max_context_length == CONTEXT
    info = vllm.GetServerInfo(vllm_engine_pb2.GetServerInfoRequest())
    assert info.server_type == "vllm-grpc" and info.active_requests == 0 and info.uptime_seconds > 0


def test_tools_are_called_and_told_of_in_a_stream_too(openai):
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    tools = [{"type": "function", "function": {"name": "weather", "parameters": parameters}}]
    asked = chat(tools=tools, max_tokens=200, ignore_eos=False)
    (call,) = openai.CreateChatCompletion(asked).choices[0].message.tool_calls[:1]
    assert call.function.name == "weather" and set(json.loads(call.function.arguments)) == {"city"}
    deltas = [delta for chunk in openai.StreamChatCompletion(asked) for delta in chunk.choices[0].delta.tool_calls]
    arguments = "".join(delta.function.arguments for delta in deltas if not delta.index)
    assert deltas[0].function.name == "weather" and set(json.loads(arguments)) == {"city"}
