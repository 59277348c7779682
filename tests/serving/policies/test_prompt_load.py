"""Does a device know of late how many prompts come with the tokens that it decodes?"""

from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.policies.prompt_load import MEMORY_S, Crowd, PromptLoad, PromptMeter

CROWD = Crowd(sequences=64, prompt=2048.0, answer=128.0, most=8192)


def test_without_prompts_there_is_no_load() -> None:
    meter = PromptMeter()
    for _ in range(100):
        meter.note(0.05, 0, 16.0)
    assert meter.load(16, 0, CROWD, False) == PromptLoad(answer=128.0)


def test_a_step_ahead_counts_from_the_first_one_on() -> None:
    load = PromptMeter().load(4, 8000, CROWD, False)
    assert load.ratio == CROWD.ratio  # and not 2,000, as these four are the first of many tokens
    assert (load.prompt, load.beside, load.most, load.crowd) == (2048.0, 8000.0, 8192, 64)


def test_in_a_wave_of_prompts_no_more_are_expected_than_requests_have_and_after_it_no_more_than_came() -> None:
    meter = PromptMeter()
    for _ in range(16):
        meter.note(0.5, 8192, 64.0)
    assert meter.load(64, 0, CROWD, False).ratio == CROWD.ratio
    for _ in range(300):
        meter.note(0.1, 0, 128.0)
    assert meter.load(64, 0, CROWD, False).ratio < 0.5


def test_the_length_of_steps_matters_not() -> None:
    def decoded(steps: int) -> float:
        """Tokens of the last 2,000, made in two memories' time, that it still knows."""
        meter = PromptMeter()
        for _ in range(steps):
            meter.note(2 * MEMORY_S / steps, 0, 2000.0 / steps)
        return 1000.0 / meter.load(1, 1000, Crowd(1, 1000.0, 1.0, 8192), False).ratio - 1

    assert decoded(1000) == pytest.approx(decoded(500), rel=0.01) == pytest.approx(1000 * (1 - exp(-2)), rel=0.01)


@given(
    st.lists(st.tuples(st.floats(0.0, 100.0), st.integers(0, 9000), st.floats(0.0, 500.0)), max_size=30),
    st.integers(1, 64),
    st.integers(0, 9000),
)
def test_a_load_is_within_its_bounds(steps: list[tuple[float, int, float]], decoding: int, prompt: int) -> None:
    meter = PromptMeter()
    for worked_s, prompt_tokens, decoded in steps:
        meter.note(worked_s, prompt_tokens, decoded)
    load = meter.load(decoding, prompt, CROWD, True)
    assert 0.0 <= load.ratio <= CROWD.ratio
    assert load.prompt <= load.beside <= load.most * (1 + 1e-9)
    assert load.crowd == 64 or not load.ratio
