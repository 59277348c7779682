"""Are the chunks that go past vLLM those that it would have written?"""

import json
import re
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from serving.api.streams.plain_stream_split import is_plain
from serving.process.server_process import ServerProcess
from tests.conftest import MODEL

# What makes vLLM write each chunk itself: it then has one field more, and nothing else that is new.
COUNTED = {"include_usage": True, "continuous_usage_stats": True}
USAGE = re.compile(r',"usage":\{[^{}]*\}')
OWN = re.compile(r'(?<="id":)"[^"]+"|(?<="created":)\d+')
CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"
TALK = {"messages": [{"role": "user", "content": "Tell me of a law, with “quotes”, a \\ and a \n."}]}
TEXT = {"prompt": "The law of"}
# Of a stream whose text is in a few chunks, not all kinds of chunks need be there: who speaks, the text, the last of
# it, the usage, and the end.
FEWEST = 8
REQUESTS: list[tuple[str, dict[str, Any]]] = [
    (CHAT, TALK),
    (CHAT, TALK | {"temperature": 0.0, "max_tokens": 1}),
    (CHAT, TALK | {"max_tokens": 2}),
    (CHAT, TALK | {"echo": True, "max_tokens": 9}),
    (CHAT, TALK | {"ignore_eos": False, "max_tokens": 200}),
    (CHAT, TALK | {"stop": ["e", "the"], "min_tokens": 20}),
    (CHAT, TALK | {"temperature": 2.0, "top_k": 400, "skip_special_tokens": False}),
    (COMPLETION, TEXT),
    (COMPLETION, TEXT | {"echo": True}),
    (COMPLETION, TEXT | {"max_tokens": 3}),
]


def chunks_of(emulator: ServerProcess, path: str, body: dict[str, Any]) -> list[str]:
    """The data of each event of a stream, without what is another's each time."""
    body = {"model": MODEL, "seed": 5, "max_tokens": 48, "ignore_eos": True, "stream": True} | body
    answer = httpx.post(emulator.http_url + path, json=body, timeout=120)
    assert answer.status_code == 200, answer.text
    return [OWN.sub("0", line) for line in answer.text.split("\n\n") if line]


def text_of(chunk: str) -> str:
    """The text of a chunk's choices."""
    choices = json.loads(chunk.removeprefix("data: "))["choices"] if "choices" in chunk else []
    return "".join(choice.get("text", choice.get("delta", {}).get("content")) or "" for choice in choices)


def form_of(chunk: str) -> str:
    """A chunk without its text."""
    text = json.dumps(text_of(chunk), ensure_ascii=False)
    return chunk.replace(f'"text":{text}', "").replace(f'"content":{text}', "")


@pytest.mark.parametrize(("path", "body"), REQUESTS, ids=lambda each: each if isinstance(each, str) else "")
def test_a_stream_has_the_bytes_that_vllm_would_have_written(
    emulator: ServerProcess, path: str, body: dict[str, Any]
) -> None:
    # Both find as much of their prompt in the prefix cache once it has been there.
    chunks_of(emulator, path, body)
    plain = chunks_of(emulator, path, body | {"stream_options": {"include_usage": True}})
    counted = chunks_of(emulator, path, body | {"stream_options": COUNTED})
    # The last of these is the usage of all, which both have.
    theirs = [*(USAGE.sub("", chunk) for chunk in counted[:-2]), *counted[-2:]]
    assert "".join(map(text_of, plain)) == "".join(map(text_of, theirs))
    assert plain[-2:] == theirs[-2:]
    # Whoever reads late gets the text of several releases in one chunk, on both ways; on a busy machine that of all.
    if list(map(text_of, plain)) == list(map(text_of, theirs)):
        assert plain == theirs
    if min(len(plain), len(theirs)) > FEWEST:
        assert set(map(form_of, plain)) == set(map(form_of, theirs))
    if path == CHAT:
        assert plain[0] == theirs[0]
    bare = chunks_of(emulator, path, body)
    assert "".join(map(text_of, bare)) == "".join(map(text_of, plain)) and bare[-1] == plain[-1]


ASKED = {
    "stream_options": None,
    "return_token_ids": None,
    "logprobs": None,
    "response_format": None,
    "structured_outputs": None,
}


@pytest.mark.parametrize(
    ("asked", "forced", "plain"),
    [
        ({}, False, True),
        ({"stream_options": SimpleNamespace(continuous_usage_stats=False)}, False, True),
        ({"stream_options": SimpleNamespace(continuous_usage_stats=True)}, False, False),
        ({"logprobs": 0}, False, False),
        ({"response_format": object()}, False, False),
        ({}, True, False),
    ],
)
def test_what_counts_in_each_chunk_is_not_plain(asked: dict[str, Any], forced: bool, plain: bool) -> None:
    serving = SimpleNamespace(enable_force_include_usage=forced)
    assert is_plain(SimpleNamespace(**ASKED | asked), serving) == plain
