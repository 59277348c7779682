"""Does a live device know what its sequences say, as far as that has come, and read it once?"""

import numpy as np
import pytest

from serving.device.drafts.live_texts import PROMPT_TOKENS, LiveTexts
from serving.device.routed_pricing import TracedDevice
from serving.device.token_buffer import TokenBuffer
from serving.scenario.scenario import BUNDLED_MODEL
from serving.types import Batch, Chunk

TRACE = TracedDevice("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b", str(BUNDLED_MODEL), "elastic", "executed")
PROMPT = [5, 6, 7, 8, 9]


def filled(prompt: list[int] | None, first: int, tokens: list[int]) -> TokenBuffer:
    buffer = TokenBuffer()
    buffer.open("a", first)
    ids = None if prompt is None else np.array(prompt, dtype=np.uint32).tobytes()
    for i, token in enumerate(tokens):
        buffer.push([Chunk("a", first + i, [token], routes=b"", prompt=ids if i == 0 else None)])
    return buffer


def batch(context: int, released: int) -> Batch:
    return Batch(["a"], [1], [context], [True], 0.0, seeds=[0], released=[released], remaining=[50])


def test_a_sequence_says_its_prompt_what_it_has_had_and_what_lies_ready() -> None:
    texts = LiveTexts(TRACE, filled(PROMPT, 0, [20, 21, 22, 23]))
    [found] = texts.contexts(batch(6, 2), np.array([6]), [0])
    assert found is not None
    assert found.token == 21 and found.following == [22, 23] and found.kv.keys.shape[1] == 6


def test_what_was_read_is_read_on_and_not_again() -> None:
    buffer = filled(PROMPT, 0, [20, 21, 22, 23])
    texts = LiveTexts(TRACE, buffer)
    texts.contexts(batch(5, 1), np.array([5]), [0])
    [later] = texts.contexts(batch(7, 3), np.array([7]), [0])
    [whole] = LiveTexts(TRACE, buffer).contexts(batch(7, 3), np.array([7]), [0])
    assert later is not None and whole is not None
    assert later.kv.keys == pytest.approx(whole.kv.keys, abs=1e-3) and later.token == whole.token == 22


def test_of_a_long_prompt_the_last_tokens_are_read() -> None:
    texts = LiveTexts(TRACE, filled(list(range(3000)), 0, [20]))
    [found] = texts.contexts(batch(3000, 1), np.array([3000]), [0])
    assert found is not None and found.kv.keys.shape[1] == PROMPT_TOKENS and found.token == 20


def test_a_request_that_goes_on_elsewhere_says_what_came_there() -> None:
    texts = LiveTexts(TRACE, filled(None, 10, [30, 31, 32]))
    [found] = texts.contexts(batch(15, 12), np.array([15]), [0])
    assert found is not None and found.token == 31 and found.following == [32] and found.kv.keys.shape[1] == 1


@pytest.mark.parametrize("released", [0, 5])
def test_what_has_not_come_is_not_known(released: int) -> None:
    texts = LiveTexts(TRACE, filled(PROMPT, 0, [20, 21, 22, 23]))
    assert texts.contexts(batch(9, released), np.array([9]), [0]) == [None]


def test_clients_get_neither_routes_nor_prompts_and_a_taken_text_is_still_known() -> None:
    buffer = filled(PROMPT, 0, [20, 21])
    chunks, _ = buffer.take({"a": 1})
    assert chunks[0].routes is None and chunks[0].prompt is None
    text = buffer.text("a")
    assert text is not None and text.said == [20, 21] and text.prompt == PROMPT
    buffer.close("a")
    assert buffer.text("a") is None
