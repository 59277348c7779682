"""Does a request get real answers of a recording, as long as it wants them, and nothing else?"""

import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.recordings.answers import LENGTH, STOP, AnswerLimits, Answers
from serving.recordings.recording import FILE, RecordedAnswer, Recording, read, tokenizer_of, write
from serving.scenario.scenario import BUNDLED_MODEL
from serving.types import Chunk, Request
from serving.usage_error import UsageError

END = 9
LAYERS, TOP_K = 2, 3


def routes(tokens: list[int]) -> np.ndarray:
    return np.array(tokens)[:, None, None] + np.zeros((1, LAYERS, TOP_K), dtype=np.int64)


RECORDED = [
    RecordedAnswer("law", tokens, tokens[-1] == END, routes(tokens))
    for tokens in ([11, 12, 13, END], [14, 15, END], [16, 17, 18, 19, 20])
] + [RecordedAnswer("math", [31, 32, 33, END], True, routes([31, 32, 33, END]))]


def recording(tmp_path: Path) -> Recording:
    write(tmp_path / FILE, RECORDED, tokenizer_of(BUNDLED_MODEL))
    return read(tmp_path / FILE, BUNDLED_MODEL)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    return Answers(recording(tmp_path_factory.mktemp("recording")), routed=True)


def asked(topic: str, seed: int, most: int, prompt: int = 5) -> Request:
    return Request("r", 0.0, prompt, most, seed=seed, topic=topic)


def chunks_of(answers: Answers, request: Request, limits: AnswerLimits) -> list[Chunk]:
    answer = answers.answer(request, limits)
    return answer.page(0, len(answer))


def tokens_of(chunks: list[Chunk]) -> list[int]:
    return [token for chunk in chunks for token in chunk.tokens]


def test_a_recording_is_read_as_it_was_written(tmp_path: Path) -> None:
    found = recording(tmp_path)
    assert found.tokens.tolist() == [token for each in RECORDED for token in each.tokens]
    assert found.topics == ("law", "math")
    assert found.finished.tolist() == [True, True, False, True]
    assert found.routes is not None and found.routes.shape == (16, LAYERS, TOP_K)


def test_an_answer_is_whole_and_of_its_topic(answers: Answers) -> None:
    chunks = chunks_of(answers, asked("math", 7, 100), AnswerLimits())
    assert tokens_of(chunks) == [31, 32, 33, END]
    assert [chunk.first for chunk in chunks] == [0, 1, 2, 3]
    assert [chunk.finish for chunk in chunks] == [None, None, None, STOP]
    assert tokens_of(chunks_of(answers, asked("law", 1, 100), AnswerLimits())) == [14, 15, END]


def test_who_has_no_topic_gets_any_answer_though_some_were_recorded_without(tmp_path: Path) -> None:
    some = [RecordedAnswer("", [11, END], True), RecordedAnswer("code", [12, END], True)]
    write(tmp_path / FILE, some, tokenizer_of(BUNDLED_MODEL))
    answers = Answers(read(tmp_path / FILE, BUNDLED_MODEL), routed=False)
    given = [tokens_of(chunks_of(answers, asked("", seed, 100), AnswerLimits())) for seed in range(2)]
    assert given == [[11, END], [12, END]]


def test_who_wants_more_gets_the_next_answer_without_the_end_between(answers: Answers) -> None:
    chunks = chunks_of(answers, asked("law", 0, 7), AnswerLimits(ignore_eos=True))
    assert tokens_of(chunks) == [11, 12, 13, 14, 15, 16, 17]
    assert chunks[-1].finish == LENGTH
    chunks = chunks_of(answers, asked("law", 0, 100), AnswerLimits(min_tokens=4))
    assert tokens_of(chunks) == [11, 12, 13, 14, 15, END]
    assert chunks[-1].finish == STOP


def test_it_stops_at_a_token_that_is_named_and_not_too_soon(answers: Answers) -> None:
    chunks = chunks_of(answers, asked("law", 0, 100), AnswerLimits(stop_ids=[13, 12]))
    assert (tokens_of(chunks), chunks[-1].finish, chunks[-1].stop_reason) == ([11, 12], STOP, 12)
    chunks = chunks_of(answers, asked("law", 0, 100), AnswerLimits(min_tokens=2, stop_ids=[13, 12]))
    assert tokens_of(chunks) == [11, 12, 13]


def test_who_ignores_the_end_and_names_its_token_stops_there(answers: Answers) -> None:
    chunks = chunks_of(answers, asked("law", 0, 100), AnswerLimits(ignore_eos=True, stop_ids=[END]))
    assert (tokens_of(chunks), chunks[-1].finish, chunks[-1].stop_reason) == ([11, 12, 13, END], STOP, END)


@given(
    topic=st.sampled_from(["", "law", "math", "cs"]),
    seed=st.integers(0, 2**63),
    prompt=st.integers(1, 40),
    most=st.integers(1, 60),
    least=st.integers(0, 60),
    ignore=st.booleans(),
    stop=st.sets(st.integers(9, 35), max_size=2),
    page=st.integers(1, 70),
)
def test_no_answer_breaks_its_limits(  # one for each limit
    answers: Answers,
    topic: str,
    seed: int,
    prompt: int,
    most: int,
    least: int,
    ignore: bool,
    stop: set[int],
    page: int,
) -> None:
    request, limits = asked(topic, seed, most, prompt), AnswerLimits(min(least, most), ignore, stop)
    chunks = chunks_of(answers, request, limits)
    tokens = tokens_of(chunks)
    assert 1 <= len(tokens) <= most
    assert len(tokens) == most or len(tokens) > limits.min_tokens
    assert [chunk.first for chunk in chunks] == list(range(len(tokens)))
    assert all(chunk.finish is None for chunk in chunks[:-1]) and chunks[-1].finish in (STOP, LENGTH)
    assert not any(token in stop for at, token in enumerate(tokens[:-1], 1) if at > limits.min_tokens)
    if ignore and not stop:
        assert len(tokens) == most and END not in tokens
    # Every token comes with the experts that led to it, and the first one with those of the prompt too.
    sizes = [prompt] + [1] * (len(tokens) - 1)
    assert [len(chunk.routes or b"") for chunk in chunks] == [size * LAYERS * TOP_K for size in sizes]
    assert [(chunk.routes or b"")[-1] for chunk in chunks] == tokens
    answer = answers.answer(request, limits)
    assert [chunk for start in range(0, most, page) for chunk in answer.page(start, start + page)] == chunks
    assert len(answer) == len(tokens)


def test_a_long_answer_takes_neither_its_memory_nor_its_time_before_it_is_read() -> None:
    bundled = Answers(read(BUNDLED_MODEL / FILE, BUNDLED_MODEL), routed=False)
    request, limits = asked("", 3, 32_000), AnswerLimits(ignore_eos=True)
    tracemalloc.start()
    answer = bundled.answer(request, limits)
    held_bytes, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(answer) == 32_000 and held_bytes < 32_000 and most_bytes < 10 * 32_000
    began_s = time.thread_time()
    for _ in range(10):
        bundled.answer(request, limits)
    # A list of its chunks took 30 ms of one, for which all other streams stood still.
    assert (time.thread_time() - began_s) / 10 < 5e-3


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"tokens": np.array([], dtype=np.uint16)}, "no recording that can be read"),
        ({"tokens": np.full(sum(len(answer.tokens) for answer in RECORDED), 10**8)}, "has a token 100000000"),
        ({"header": np.array("[]")}, "another file, or a damaged one"),
        ({"ends": np.array([4, 7, 12, 99])}, "its answers are not whole"),
        ({"ends": np.array([4, 3, 2, 17], dtype=np.uint64)}, "its answers are not whole"),
        ({"tokens": np.full(17, 1.5)}, "its `tokens` is of the type float64; allowed are whole numbers"),
        ({"ends": np.array([[4, 7], [12, 17]])}, "its `ends` has 2 dimensions; allowed are 1"),
        ({"routes": np.full((17, 1, 1), -1)}, "its `routes` has -1; allowed is 0 or more"),
        ({"finished": np.array(["True"] * 4)}, "its `finished` is of the type <U4; allowed are truth values"),
        ({"topic_of": np.array([0, 0, 0, 5])}, "its topics are not those"),
        ({"routes": np.zeros((3, 1, 1), dtype=np.uint8)}, "its routes are not those"),
        ({"header": np.array("{")}, "no recording that can be read"),
        ({"header": np.array('{"version": 2}')}, "version 2"),
        ({"header": np.array('{"version": 1, "topics": ["a", "b"], "tokenizer": "another"}')}, "another tokenizer"),
    ],
)
def test_a_file_that_is_wrong_is_refused_by_name(tmp_path: Path, wrong: dict[str, np.ndarray], told: str) -> None:
    recording(tmp_path)
    with np.load(tmp_path / FILE) as found:
        arrays = dict(found) | wrong
    np.savez_compressed(tmp_path / FILE, **arrays)
    with pytest.raises(UsageError, match=told) as refused:
        read(tmp_path / FILE, BUNDLED_MODEL)
    assert str(tmp_path / FILE) in str(refused.value) and "foreserve record" in str(refused.value)


def test_one_that_is_damaged_somewhere_is_refused_or_read_as_it_was(tmp_path: Path) -> None:
    sound = recording(tmp_path)
    whole = (tmp_path / FILE).read_bytes()
    refused = 0
    for position in range(0, len(whole), 7):
        (tmp_path / FILE).write_bytes(whole[:position] + bytes(3) + whole[position + 3 :])
        try:
            found = read(tmp_path / FILE, BUNDLED_MODEL)
        except UsageError:
            refused += 1
            continue
        assert found.topics == sound.topics
        for name in ("tokens", "ends", "topic_of", "finished"):
            assert np.array_equal(getattr(found, name), getattr(sound, name)), (position, name)
        # A damaged name is one that nobody asks for: who needs routes is told that there are none.
        assert found.routes is None or np.array_equal(found.routes, sound.routes), position
    assert refused > len(whole) // 14


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 and then nothing", b"text"])
def test_what_is_no_recording_at_all_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(UsageError, match="no recording that can be read"):
        read(tmp_path / FILE, BUNDLED_MODEL)
    with pytest.raises(UsageError, match="No such file"):
        read(tmp_path / "none.npz", BUNDLED_MODEL)


def test_the_bundled_recording_is_of_the_bundled_model() -> None:
    bundled = read(BUNDLED_MODEL / FILE, BUNDLED_MODEL)
    assert bundled.routes is not None and len(bundled.ends) > 500
