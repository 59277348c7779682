"""What of /v1/responses vLLM itself would fail at is refused by the name of its item."""

import pytest

from serving.api.guards.responses_guard import check_input
from serving.edge.request_bounds import OutOfBounds

MESSAGE = {"type": "message", "role": "assistant", "id": "m", "status": "completed"}
TEXT = {"type": "output_text", "text": "Hi", "annotations": []}


@pytest.mark.parametrize("content", [[], [{"type": "refusal", "refusal": "No."}]])
def test_an_answer_without_a_text_is_refused(content: list[object]) -> None:
    with pytest.raises(OutOfBounds, match=r"input\.1"):
        check_input([{"role": "user", "content": "Hello"}, MESSAGE | {"content": content}])


def test_one_with_a_text_is_not() -> None:
    check_input([MESSAGE | {"content": [TEXT]}])
