"""Is a bundled model guided to a call by a grammar, but where there are more tools than one can tell of?"""

from typing import Any

import pytest
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest

from serving.api.tool_choice import PARSER, choose_tool
from serving.edge.request_bounds import OutOfBounds


def asked(tools: int, choice: Any) -> ChatCompletionRequest:
    schema = {"type": "object", "properties": {f"argument_{i}": {"type": "string"} for i in range(20)}}
    functions = [{"type": "function", "function": {"name": f"f{i}", "parameters": schema}} for i in range(tools)]
    hello = [{"role": "user", "content": "Hi"}]
    return ChatCompletionRequest.model_validate({"messages": hello, "tools": functions, "tool_choice": choice})


@pytest.mark.parametrize("choice", ["auto", "required", {"type": "function", "function": {"name": "f1"}}])
def test_a_few_tools_make_a_grammar(choice: Any) -> None:
    request = asked(3, choice)
    choose_tool(request, PARSER)
    assert request.tool_choice == "auto" and "argument_19" in request.structured_outputs.structural_tag


def test_among_many_the_model_chooses_by_itself() -> None:
    request = asked(60, "auto")
    choose_tool(request, PARSER)
    assert request.tool_choice == "auto" and request.structured_outputs is None


def test_of_many_one_can_be_named_and_none_be_required() -> None:
    with pytest.raises(OutOfBounds, match=r"`tools` of which one must be called make a grammar of .* name one"):
        choose_tool(asked(60, "required"), PARSER)
    request = asked(60, {"type": "function", "function": {"name": "f7"}})
    choose_tool(request, PARSER)
    assert '"f7' in request.structured_outputs.structural_tag.replace("\\", "")
