"""Which bodies are refused before anything is made of them, with the name of the field."""

from typing import Any

import pytest

from serving.edge.body_bounds import MOST_BEAM_TOKENS, MOST_CONVERSATIONS, check_body
from serving.edge.request_bounds import OutOfBounds


@pytest.mark.parametrize(
    "body",
    [{}, {"max_tokens": MOST_BEAM_TOKENS + 1}, {"max_tokens": "all"}, {"max_tokens": 2000, "max_completion_tokens": 1}],
)
def test_a_beam_is_short(body: dict[str, Any]) -> None:
    with pytest.raises(OutOfBounds, match="use_beam_search"):
        check_body(body | {"use_beam_search": True}, 64)
    check_body(body | {"use_beam_search": False}, 64)
    check_body({"use_beam_search": True, "max_completion_tokens": MOST_BEAM_TOKENS}, 64)


@pytest.mark.parametrize("body", [[], "a", 3, None, True, [{"messages": []}]])
def test_a_body_that_is_no_object_is_refused(body: object) -> None:
    with pytest.raises(OutOfBounds, match="it must be an object"):
        check_body(body, 64)


def test_a_batch_has_fewer_conversations_than_one_has_messages_and_no_more_than_the_queue_has_places() -> None:
    message = {"role": "user", "content": "a"}
    check_body({"messages": [message] * (MOST_CONVERSATIONS + 1)}, 64)
    for places, most in ((2048, MOST_CONVERSATIONS), (3, 3)):
        check_body({"messages": [[message]] * most}, places)
        with pytest.raises(OutOfBounds, match=f"`messages` has {most + 1} entries, and may have {most}"):
            check_body({"messages": [[message]] * (most + 1)}, places)


@pytest.mark.parametrize(("field", "entry"), [("prompt", "a"), ("messages", [{"role": "user", "content": "a"}])])
def test_prompts_have_no_more_answers_together_than_the_queue_has_places(field: str, entry: object) -> None:
    check_body({field: [entry] * 3, "n": 4}, 12)
    check_body({field: [entry] * 3, "n": "four"}, 12)
    for five in (5, "5", 5.0):
        with pytest.raises(OutOfBounds, match=f"`n` is 5 for each of 3 entries of `{field}`: together they may be 12"):
            check_body({field: [entry] * 3, "n": five}, 12)
