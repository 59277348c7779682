import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.load.client import RequestTimes
from serving.load.sse import EventReader, message_of

DELTAS = [{"role": "assistant", "content": ""}, {"content": "é\n w"}, {"content": ""}, {"reasoning": "hm"}, {}]
CHOICES = [
    *({"delta": delta, "finish_reason": None} for delta in DELTAS),
    {"delta": {}, "finish_reason": "stop"},
    {"text": " w", "finish_reason": None},
    {"text": "", "finish_reason": "length"},
]
USAGES = st.one_of(st.none(), st.builds(lambda n: {"prompt_tokens": 3, "completion_tokens": n}, st.integers(0, 9)))
EVENTS = st.builds(
    lambda choice, usage: {"choices": [choice] if choice else [], "usage": usage},
    st.sampled_from([*CHOICES, None]),
    USAGES,
)


def read(stream: bytes, cuts: list[int] = ()) -> RequestTimes:
    times = RequestTimes(0.0)
    reader = EventReader(times)
    bounds = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    for start, end in pairwise(bounds):
        reader.feed(1.0, stream[start:end])
    reader.end(1.0)
    return times


def facts(times: RequestTimes) -> tuple:
    return times.outputs_s, times.counts, times.prompt_tokens, times.output_tokens, times.status, times.error


def lines(*events: object, end: str = "\n\n") -> bytes:
    return "".join(f"data: {json.dumps(event, ensure_ascii=False)}{end}" for event in events).encode()


@given(st.lists(EVENTS, max_size=6), st.sampled_from(["\n\n", "\r\n\r\n"]), st.lists(st.integers(0, 5000), max_size=30))
def test_where_pieces_are_cut_does_not_matter(events, end, cuts):
    stream = b": a comment\n\n" + lines(*events, end=end) + b"event: end\ndata: [DONE]"
    assert facts(read(stream, cuts)) == facts(read(stream))


def test_outputs_are_the_chunks_that_bring_tokens():
    role, word, unprintable, reasoning, empty, stop, text, last = ({"choices": [choice]} for choice in CHOICES)
    assert len(read(lines(role, stop, last)).outputs_s) == 0
    assert len(read(lines(word, unprintable, reasoning, empty, text)).outputs_s) == 5


def test_usage_counts_tokens_by_chunk_if_every_chunk_has_it():
    word = CHOICES[1]
    usage = [{"prompt_tokens": 3, "completion_tokens": n} for n in (2, 5)]
    times = read(lines(*({"choices": [word], "usage": u} for u in usage)))
    assert times.counts == [2, 5]
    assert (times.prompt_tokens, times.tokens) == (3, 5)


def test_a_last_token_without_text_is_a_token():
    times = RequestTimes(0.0)
    times.see(1.0, True, None)
    times.see(2.0, False, None)  # The bare finish_reason.
    times.prompt_tokens, times.output_tokens = 3, 2
    times.close()
    assert times.outputs_s == [1.0, 2.0]


def test_a_bare_finish_reason_that_usage_does_not_count_is_none():
    times = RequestTimes(0.0)
    times.see(1.0, True, None)
    times.see(2.0, False, (3, 1))
    times.close()
    assert times.outputs_s == [1.0]


@pytest.mark.parametrize(
    "payload",
    [b"{", b"[]", b'{"choices": 3}', b'"x"', b'{"choices": [{"text": "\xff"}]}', b'{"new": ' + b"[" * 100_000],
    ids=["cut", "list", "type", "text", "no UTF-8", "deep"],
)
def test_what_is_no_chunk_fails_the_request(payload):
    times = read(b"data: " + payload + b"\n\n")
    assert times.status == "stream"
    assert times.error.startswith("not an OpenAI chunk")


def test_null_usage_and_unknown_fields_are_fine():
    times = read(lines({"choices": [{"text": "w", "logprobs": None}], "usage": {"completion_tokens": None}, "new": 1}))
    assert (times.error, times.output_tokens) == (None, None)


@pytest.mark.parametrize(
    "error", ["no", {"message": "no"}, {"error": {"message": "no", "code": 400}}, {"detail": "no"}, {"error": "no"}]
)
def test_an_error_is_found_in_every_shape(error):
    assert message_of(error) == "no"


def test_an_error_says_nothing_to_the_terminal():
    assert message_of({"error": "all\x1b[2Jdone\r\nné\x9b"}) == "all\\x1b[2Jdone\\r\nné\\x9b"
