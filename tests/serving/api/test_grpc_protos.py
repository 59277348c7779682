"""Are the messages what they mirror, and the generated modules what their sources give?"""

import importlib.util
from pathlib import Path

import pytest
from openai.types import completion_create_params as openai_completion
from openai.types.chat import completion_create_params as openai_chat
from vllm.entrypoints.generate.base import protocol as base
from vllm.entrypoints.openai.chat_completion import protocol as chat
from vllm.entrypoints.openai.completion import protocol as completion
from vllm.entrypoints.serve.engine import protocol as engine

from serving.admission.request_options import FIELDS
from serving.api.pb.foreserve.v1 import openai_pb2 as pb

# Only for vLLM's endpoints that render a prompt and stop there.
RENDER_ONLY = {"return_token_offsets", "mm_payload", "return_mm_kwargs"}
# OpenAI's fields that vLLM takes and ignores, or has dropped.
CHAT_IGNORED = set(openai_chat.CompletionCreateParamsBase.__annotations__) - set(
    chat.ChatCompletionRequest.model_fields
)
MIRRORED = {
    pb.ChatCompletion: chat.ChatCompletionResponse,
    pb.ChatCompletionChoice: chat.ChatCompletionResponseChoice,
    pb.ChatCompletionMessage: chat.ChatMessage,
    pb.ChatCompletionChunk: chat.ChatCompletionStreamResponse,
    pb.ChatCompletionChunkChoice: chat.ChatCompletionResponseStreamChoice,
    pb.ChatCompletionDelta: base.DeltaMessage,
    pb.ChatLogprobs: chat.ChatCompletionLogProbs,
    pb.ChatTokenLogprob: chat.ChatCompletionLogProbsContent,
    pb.TopLogprob: chat.ChatCompletionLogProb,
    pb.Completion: completion.CompletionResponse,
    pb.CompletionChoice: completion.CompletionResponseChoice,
    pb.CompletionLogprobs: completion.CompletionLogProbs,
    pb.Usage: engine.UsageInfo,
    pb.PromptTokensDetails: engine.PromptTokenUsageInfo,
    pb.CompletionTokensDetails: engine.CompletionTokenUsageInfo,
    pb.Model: engine.ModelCard,
    pb.ModelList: engine.ModelList,
    pb.ToolCall: base.ToolCall,
    pb.ToolCallDelta: base.DeltaToolCall,
    pb.FunctionDefinition: base.FunctionDefinition,
    pb.Tool: chat.ChatCompletionToolsParam,
}


def fields(message):
    return {field.name for field in message.DESCRIPTOR.fields}


@pytest.fixture
def protos():
    path = Path(__file__).parents[3] / "tools" / "protos.py"
    spec = importlib.util.spec_from_file_location("protos", path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_what_is_committed_is_what_the_sources_give(protos):
    assert protos.stale() == [], "run `make protos`"


def test_what_sources_that_are_gone_have_left_is_removed_and_nothing_else(protos, monkeypatch, tmp_path):
    monkeypatch.setattr(protos, "GENERATED", tmp_path)
    gone = tmp_path / "foreserve" / "v0"
    gone.mkdir(parents=True)
    for name in ("__init__.py", "gone_pb2.py", "gone_pb2.pyi", "gone_pb2_grpc.py"):
        (gone / name).write_text("" if name == "__init__.py" else "old = True")
    (tmp_path / "mine.py").write_text("mine = True")
    protos.renew()
    assert protos.stale() == ["mine.py"] and list(gone.iterdir()) == []


def test_chat_requests_have_all_fields_of_vllm_and_of_openai_and_no_others():
    known = set(chat.ChatCompletionRequest.model_fields) - RENDER_ONLY
    assert fields(pb.ChatCompletionRequest) == known | CHAT_IGNORED | set(FIELDS)


def test_completion_requests_have_all_fields_of_vllm_and_of_openai_and_no_others():
    known = set(completion.CompletionRequest.model_fields) - RENDER_ONLY
    openai = set(openai_completion.CompletionCreateParamsBase.__annotations__)
    assert fields(pb.CompletionRequest) == known | openai | set(FIELDS)


@pytest.mark.parametrize(("ours", "theirs"), MIRRORED.items(), ids=lambda kind: kind.__name__)
def test_responses_have_the_fields_of_vllm_and_no_others(ours, theirs):
    assert fields(ours) == set(theirs.model_fields)


def test_json_names_are_the_names_and_no_number_becomes_a_string():
    messages = list(pb.DESCRIPTOR.message_types_by_name.values())
    found = [field for message in messages for field in message.fields]
    assert [field.full_name for field in found if field.json_name != field.name] == []
    wide = {field.CPPTYPE_INT64 for field in found} | {field.CPPTYPE_UINT64 for field in found}
    assert [field.full_name for field in found if field.cpp_type in wide] == []
    scalars = [field for field in found if not field.is_repeated and field.message_type is None]
    assert [field.full_name for field in scalars if not field.has_presence] == []
