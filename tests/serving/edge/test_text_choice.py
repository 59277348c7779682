"""Does text come from a recording where that is asked for, or vLLM is behind, and from vLLM wherever it has to?"""

from types import SimpleNamespace
from typing import Any

import pytest
from vllm import SamplingParams
from vllm.sampling_params import RepetitionDetectionParams, StructuredOutputsParams

from serving.call import Call
from serving.edge.text_choice import (
    HEADER,
    NEUTRAL,
    SAME_S,
    TextChoice,
    TextNeeds,
    least_tokens,
    needs_model,
    next_stream_of,
    prompts_of,
)
from serving.flight import Flight
from serving.recordings.answers import STOP, Answers
from serving.recordings.recording import FILE, read
from serving.recordings.source_load import SourceLoad
from serving.scenario.scenario import AUTO_TEXT, BUNDLED_MODEL, RECORDED_TEXT, VLLM_TEXT
from serving.types import Request

NEEDS: dict[str, Any] = {
    "seed": 3,
    "logprobs": 1,
    "prompt_logprobs": 1,
    "logprob_token_ids": [5],
    "prompt_logprob_token_ids": [5],
    "repetition_detection": RepetitionDetectionParams(max_pattern_size=4, min_count=3),
    "thinking_token_budget": 7,
    "logit_bias": {5: 1.0},
    "allowed_token_ids": [5],
    "bad_words": ["no"],
    "structured_outputs": StructuredOutputsParams(regex="a+"),
    "presence_penalty": 0.5,
    "frequency_penalty": 0.5,
    "repetition_penalty": 1.5,
}
"""Of each field, a value that only the model itself can heed."""

QUICK = (1e-9, 1e-9)
"""A source whose steps take no time to speak of."""


@pytest.fixture(scope="module")
def answers() -> Answers:
    return Answers(read(BUNDLED_MODEL / FILE, BUNDLED_MODEL), routed=False)


def call() -> Call:
    return Call(0.0, needs_model=False)


def choice(text: str, answers: Answers | None, late: bool = False, first_s: float = 0.0) -> TextChoice:
    load = SourceLoad(lambda device, streams: 50.0, lambda: (first_s, 50.0), lambda: [0], lambda: 1)
    made = TextChoice(text, answers, load)
    if late:
        load.begin(0)
        load.underrun(float("inf"))
    return made


def test_each_field_that_says_how_tokens_are_chosen_needs_the_model() -> None:
    assert NEEDS.keys() == NEUTRAL.keys() and not needs_model(SamplingParams())
    assert [name for name, value in NEEDS.items() if not needs_model(SamplingParams(**{name: value}))] == []
    assert not needs_model(SamplingParams(temperature=0.3, top_p=0.5, top_k=9, min_tokens=1, stop=["x"]))


@pytest.mark.parametrize(
    ("text", "late", "by_chance", "needs", "recorded"),
    [
        (AUTO_TEXT, False, True, False, False),
        (AUTO_TEXT, True, True, False, True),
        # Greedily chosen text is the same each time.
        (AUTO_TEXT, True, False, False, False),
        (AUTO_TEXT, True, True, True, False),
        (RECORDED_TEXT, False, True, False, True),
        (RECORDED_TEXT, False, False, False, True),
        (RECORDED_TEXT, False, True, True, False),
        (VLLM_TEXT, True, True, False, False),
    ],
)
def test_text_is_recorded_where_it_may_be_and_is_asked_for_or_the_source_is_behind(
    answers: Answers, text: str, late: bool, by_chance: bool, needs: bool, recorded: bool
) -> None:
    asking = call()
    assert choice(text, answers, late).choose_for(asking, TextNeeds(needs, by_chance, 0), QUICK) is recorded
    assert asking.answer[HEADER] == ("recorded" if recorded else "vllm")


def test_a_call_whose_body_needs_the_model_gets_it(answers: Answers) -> None:
    asking = call()
    asking.needs_model = True  # tools, or an echo
    assert not choice(RECORDED_TEXT, answers).choose_for(asking, TextNeeds(False, True, 0), QUICK)


def test_it_is_decided_once_a_call(answers: Answers) -> None:
    made, asking = choice(AUTO_TEXT, answers), call()
    assert not made.choose_for(asking, TextNeeds(False, True, 0), QUICK)
    late = choice(AUTO_TEXT, answers, late=True)
    assert not late.choose_for(asking, TextNeeds(False, True, 0), QUICK)
    assert late.choose_for(call(), TextNeeds(False, True, 0), QUICK)


def test_without_a_recording_there_is_none() -> None:
    assert not choice(AUTO_TEXT, None, late=True).choose_for(call(), TextNeeds(False, True, 0), QUICK)


def test_what_a_source_has_told_of_its_steps_counts(answers: Answers) -> None:
    # 50 tokens a second are 20 ms each.
    assert choice(AUTO_TEXT, answers).choose_for(call(), TextNeeds(False, True, 0), (0.021, 0.0))
    assert not choice(AUTO_TEXT, answers).choose_for(call(), TextNeeds(False, True, 0), (0.019, 0.0))


def test_a_source_with_nothing_else_to_do_may_be_slower_for_as_long_as_its_lead_lasts(answers: Answers) -> None:
    # A millisecond more for each token is made up for by 50 ms before the first of 50.
    slow, slower, slowest = (0.021, 0.0), (0.022, 0.0), (0.024, 0.0)
    assert 30 < answers.usual_tokens < 50
    assert not choice(AUTO_TEXT, answers, first_s=0.05).choose_for(call(), TextNeeds(False, True, 24), slow)
    # Of an answer of a known length there is less to be hoped.
    assert choice(AUTO_TEXT, answers, first_s=0.05).choose_for(call(), TextNeeds(False, True, 26), slow)
    assert not choice(AUTO_TEXT, answers, first_s=0.05).choose_for(call(), TextNeeds(False, True, 0), slower)
    assert choice(AUTO_TEXT, answers, first_s=0.05).choose_for(call(), TextNeeds(False, True, 0), slowest)


def test_a_call_is_judged_by_all_streams_that_it_begins(answers: Answers) -> None:
    cost = (0.004, 0.0003)
    assert not choice(AUTO_TEXT, answers).choose_for(call(), TextNeeds(False, True, 0, 26), cost)
    assert choice(AUTO_TEXT, answers).choose_for(call(), TextNeeds(False, True, 0, 27), cost)


def begun(call: Call, id: str) -> Flight:
    """One of a call's streams, in flight."""
    return Flight(None, Request(id, 0.0, 5, 9), 0, call=call)


NEEDS_CHANCE = TextNeeds(False, True, 0)
# One stream of it is in time, by the seconds before its first token; two need more than it has.
ALL_BUT_BUSY = (0.021, 0.0)


def test_those_that_come_together_count_before_they_begin(answers: Answers) -> None:
    made, first, second = choice(AUTO_TEXT, answers, first_s=0.05), call(), call()
    assert not made.choose_for(first, NEEDS_CHANCE, ALL_BUT_BUSY)
    assert made.choose_for(second, NEEDS_CHANCE, ALL_BUT_BUSY)
    stream = begun(first, "a")
    made.on_begin(stream)
    assert first.coming == 0 and made.choose_for(call(), NEEDS_CHANCE, ALL_BUT_BUSY)
    made.on_finish(stream)
    first.end(None)
    assert not made.choose_for(call(), NEEDS_CHANCE, ALL_BUT_BUSY)


def test_what_ends_before_it_begins_counts_no_longer(answers: Answers) -> None:
    made, wide, ended = choice(AUTO_TEXT, answers, first_s=0.05), call(), call()
    assert not made.choose_for(wide, TextNeeds(False, True, 0, 3), (1e-9, 0.0))
    made.on_begin(stream := begun(wide, "a"))
    made.on_move(stream)
    assert wide.coming == 2
    # Refused, cancelled, or broken off between its prompts.
    wide.end(None)
    made.on_finish(stream)
    ended.end(None)
    # Its text is made in the background.
    assert not made.choose_for(ended, NEEDS_CHANCE, ALL_BUT_BUSY)
    made.on_begin(late := begun(ended, "b"))
    made.on_finish(late)
    assert (made._load.coming, made._load._streams.total()) == (0, 0)
    assert not made.choose_for(call(), NEEDS_CHANCE, ALL_BUT_BUSY)


@pytest.mark.parametrize(
    ("prompt", "prompts"), [("a", 1), (["a", "b"], 2), ([1, 2, 3], 1), ([[1, 2], [3]], 2), ([], 1), (None, 1)]
)
def test_prompts_are_counted_however_they_are_written(prompt: Any, prompts: int) -> None:
    assert prompts_of(SimpleNamespace(prompt=prompt)) == prompts


def test_conversations_of_a_batch_are_counted_and_messages_of_one_are_not() -> None:
    said = [{"role": "user", "content": "a"}]
    assert prompts_of(SimpleNamespace(messages=[said, said, said])) == 3
    assert prompts_of(SimpleNamespace(messages=[*said, *said])) == 1


def test_what_it_has_told_is_forgotten_with_it(answers: Answers) -> None:
    made = choice(AUTO_TEXT, answers)
    assert made.choose_for(call(), TextNeeds(False, True, 0), (0.5, 0.0))
    assert not made.choose_for(call(), TextNeeds(False, True, 0), None)


@pytest.mark.parametrize(
    ("said", "least"),
    [
        ({"max_tokens": 9}, 0),
        ({"max_tokens": 9, "min_tokens": 3}, 3),
        ({"max_tokens": 9, "ignore_eos": True}, 9),
        ({"max_tokens": None, "ignore_eos": True}, 0),
    ],
)
def test_an_answer_has_so_many_tokens_at_least(said: dict[str, Any], least: int) -> None:
    assert least_tokens(SamplingParams(**said)) == least


@pytest.mark.parametrize("ignored", [False, True])
def test_an_answer_ends_at_its_end_for_no_other_reason_unless_that_is_ignored(answers: Answers, ignored: bool) -> None:
    end = 2  # as the bundled model's config.json has it
    params = SamplingParams(max_tokens=4096, stop_token_ids=[end], ignore_eos=ignored)
    params.update_from_generation_config({}, end)
    answer = choice(RECORDED_TEXT, answers).answer(Request("r", 0.0, 5, 4096), params)
    chunks = answer.page(0, 4096)
    assert chunks[-1].tokens == [end] and len(chunks) < 4096
    assert (chunks[-1].finish, chunks[-1].stop_reason) == (STOP, end if ignored else None)


def test_the_forecast_of_a_stream_is_made_once_for_a_crowd_and_told_in_real_seconds() -> None:
    asked, at_s = list[float](), [0.0]

    def next_stream(now_s: float) -> tuple[float, float]:
        asked.append(now_s)
        return 3.0 + now_s, 20.0

    told = next_stream_of(next_stream, lambda: at_s[0], speed=2.0)
    assert told() == (1.5, 40.0)
    at_s[0] = 1.9 * SAME_S
    assert told() == (1.5, 40.0) and asked == [0.0]
    at_s[0] = 2.0
    assert told() == (2.5, 40.0) and asked == [0.0, 2.0]
