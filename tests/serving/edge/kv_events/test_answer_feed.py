"""Does a device's scheduler hear of what an answer said, and is its prompt not hashed again for that?"""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from serving.call import Choices, Prefix
from serving.edge.kv_events.answer_feed import AnswerFeed
from serving.edge.kv_events.prefixes import OwnPrefixes
from serving.flight import Flight
from serving.scheduler.prefix_hash import block_hashes
from serving.types import Request

BLOCK = 4
PROMPT = list(range(100, 110))


class CountedPrefix:
    """A prefix that keeps with what it was extended."""

    def __init__(self, prefix: Prefix) -> None:
        self.fields, self._prefix, self.by = prefix.fields, prefix, list[list[int]]()

    def extended(self, tokens: Sequence[int]) -> Prefix:
        self.by.append(list(tokens))
        return self._prefix.extended(tokens)


@pytest.mark.parametrize(("answer", "told"), [([], False), ([1, 2], False), ([1, 2, 3], True), (list(range(9)), True)])
def test_an_answer_that_completes_a_block_is_told_of_and_its_prompt_is_not_hashed_again(
    answer: list[int], told: bool
) -> None:
    remembered = list[Request]()
    node: Any = SimpleNamespace(calls=SimpleNamespace(remember=remembered.append))
    prefix = CountedPrefix(OwnPrefixes(BLOCK).empty("mine").extended(PROMPT))
    request = Request("a", 0.0, len(PROMPT), 9, **prefix.fields)
    flight = Flight(None, request, 0, tokens=answer, choices=Choices(prefix=prefix))
    for there in (None, node):
        AnswerFeed(BLOCK, lambda device, there=there: there).on_finish(flight)  # type: ignore[misc]
    assert prefix.by == [answer[:-1]] * told
    whole = block_hashes([*PROMPT, *answer[:-1]], BLOCK, "mine")
    assert [each.blocks for each in remembered] == [whole] * told and len(request.blocks) == 2
