"""gRPC calls of all sorts: random bytes, valid messages with bytes changed, messages of odd values, odd metadata."""

from random import Random
from typing import Any

import grpc
from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from smg_grpc_proto import vllm_engine_pb2

from serving.api.pb.foreserve.v1 import openai_pb2 as pb
from tests.conftest import MODEL
from tests.soak.fuzz_http import AT_ONCE, HANG_S, Answers
from tests.soak.late_batches import LateBatches
from tests.soak.nasty import mangled

CHAT = json_format.ParseDict(
    {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}, pb.ChatCompletionRequest()
)
TEXT = json_format.ParseDict({"model": MODEL, "prompt": "Hi", "max_tokens": 2}, pb.CompletionRequest())
TOKENS = vllm_engine_pb2.GenerateRequest(
    request_id="r", tokenized={"input_ids": [1, 2, 3]}, sampling_params={"max_tokens": 2}, stream=True
)
OPENAI, ENGINE = "/foreserve.v1.OpenAI/", "/vllm.grpc.engine.VllmEngine/"
METHODS: dict[str, Message] = {
    OPENAI + "CreateChatCompletion": CHAT,
    OPENAI + "StreamChatCompletion": CHAT,
    OPENAI + "CreateCompletion": TEXT,
    OPENAI + "StreamCompletion": TEXT,
    OPENAI + "GetModel": pb.GetModelRequest(model=MODEL),
    OPENAI + "NoSuchMethod": TEXT,
    ENGINE + "Generate": TOKENS,
    ENGINE + "Embed": vllm_engine_pb2.EmbedRequest(request_id="r", tokenized={"input_ids": [1]}),
    ENGINE + "Abort": vllm_engine_pb2.AbortRequest(request_ids=["nobody"]),
    ENGINE + "GetLoads": vllm_engine_pb2.GetLoadsRequest(),
    ENGINE + "GetModelInfo": vllm_engine_pb2.GetModelInfoRequest(),
    ENGINE + "StartProfile": TEXT,
    ENGINE + "FlushCache": TEXT,
    "/grpc.health.v1.Health/Check": vllm_engine_pb2.AbortRequest(request_ids=["x"]),
    "/foreserve.v1.Admin/ListFaults": TEXT,
    "/foreserve.v1.Admin/AddDevices": TEXT,
}
# Most of what is fuzzed is where most can go wrong.
WEIGHTS = [
    6 if name.startswith(OPENAI + ("C")) or name.endswith(("Generate", "StreamCompletion")) else 1 for name in METHODS
]
FAILURES = {"INTERNAL", "UNKNOWN", "UNAVAILABLE", "DATA_LOSS", "DEADLINE_EXCEEDED", "ABORTED", "CANCELLED"}
NUMBERS = (0, 1, -1, 2, 65, 10**6, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 2**32 - 1, 2**64 - 1)
FLOATS = (0.0, -0.0, 1.0, -1.0, 1e-38, 1e38, float("inf"), float("-inf"), float("nan"), 0.5, 2.0)
TEXTS = ("", "a", "\0", "💥", "a" * 3000, "(", "{", '{"$ref": "#"}', "root ::= root", "none", MODEL)
METADATA: tuple[tuple[str, str | bytes], ...] = (
    ("x-request-id", "a" * 1000),
    ("x-foreserve-slo", "none"),
    ("x-foreserve-nothing", "1"),
    ("x-foreserve-priority", "nan"),
    ("x-foreserve-ttft-ms", "-1"),
    ("x-odd-bin", b"\xff\x00\xfe" * 100),
    ("traceparent", "00-zz"),
    ("x-data-parallel-rank", "99"),
    ("x-long", "y" * 7000),
)


def by_hand(batches: LateBatches, answers: Answers, count: int, number: int) -> None:
    """So many calls, from a seed."""
    random = Random(number)
    with grpc.insecure_channel(batches.child.grpc_url.removeprefix("grpc://")) as channel:
        batches.send((_call(random) for _ in range(count)), lambda each: _ask(channel, each, answers), AT_ONCE)


def _call(random: Random) -> tuple[str, bytes, list[tuple[str, str | bytes]]]:
    (method,) = random.choices(list(METHODS), WEIGHTS)
    kind = random.random()
    if kind < 0.15:
        body = random.randbytes(random.randint(0, 300))
    elif kind < 0.4:
        body = mangled(random, METHODS[method].SerializeToString())
    else:
        message = type(METHODS[method])()
        message.CopyFrom(METHODS[method])
        for _ in range(random.choice((1, 1, 2, 3))):
            disturb(random, message)
        body = message.SerializeToString()
    metadata = [random.choice(METADATA)] if random.random() < 0.1 else []
    return method, body, metadata


def disturb(random: Random, message: Message, depth: int = 0) -> None:
    """Another value in one of its fields, or in one of theirs."""
    field = random.choice(message.DESCRIPTOR.fields) if message.DESCRIPTOR.fields else None
    if field is None or depth > 20:
        return
    if field.message_type and field.message_type.GetOptions().map_entry:
        _disturb_map(random, getattr(message, field.name), field, depth)
    elif field.is_repeated:
        items = getattr(message, field.name)
        for _ in range(random.choice((1, 1, 2, 200)) if depth == 0 else 1):
            if field.message_type:
                disturb(random, items.add(), depth + 1)
            else:
                items.append(odd(random, field))
    elif field.message_type:
        part = getattr(message, field.name)
        part.SetInParent()
        disturb(random, part, depth + 1)
    else:
        setattr(message, field.name, odd(random, field))


def _disturb_map(random: Random, entries: Any, field: FieldDescriptor, depth: int) -> None:
    key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
    said = odd(random, key)
    if value.message_type:
        disturb(random, entries[said], depth + 1)
    else:
        entries[said] = odd(random, value)


def odd(random: Random, field: FieldDescriptor) -> Any:
    """A value that a field can have, and hardly ever should."""
    if field.cpp_type in (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT):
        return random.choice(FLOATS)
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return random.random() < 0.5
    if field.type == FieldDescriptor.TYPE_BYTES:
        return random.randbytes(random.randint(0, 50))
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return random.choice(TEXTS)
    if field.enum_type:
        return random.choice(field.enum_type.values).number
    bits = 32 if field.cpp_type in (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_UINT32) else 64
    is_signed = field.cpp_type in (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_INT64)
    least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if is_signed else (0, 2**bits - 1)
    return random.choice([number for number in NUMBERS if least <= number <= most])


def _ask(channel: grpc.Channel, call: tuple[str, bytes, Any], answers: Answers) -> None:
    method, body, metadata = call
    # One answer is a stream of one.
    ask = channel.unary_stream(method, request_serializer=None, response_deserializer=None)
    text = ""
    try:
        for _ in ask(body, metadata=metadata, timeout=HANG_S):
            pass
        status = "OK"
    except grpc.RpcError as error:
        status, text = error.code().name, error.details() or ""  # type: ignore[attr-defined]
    answers.take(status, status in FAILURES, lambda: f"{method} {body!r} {metadata} -> {text[:300]}")
