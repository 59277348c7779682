"""Is a token's cost in each mode what a long run of it has?"""

from math import exp
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.policies.prompt_load import NO_PROMPTS, PromptLoad
from serving.policies.turnover import StepPrice, TokenCost, token_cost
from serving.scenario.scenario import Scenario
from serving.simulation.play import play
from serving.workload import load_workload

COUNTS = st.integers(1, 64)


class Line:
    """Steps that cost 10 ms, 1 ms for each sequence, and 0.1 ms for each token of prompts; each sequence has
    `tokens` of them."""

    def __init__(self, tokens: float = 1.0) -> None:
        self.tokens = tokens

    def step(self, decoding: int, prompt_tokens: float) -> StepPrice:
        return StepPrice(0.010 + 0.001 * decoding + 0.0001 * prompt_tokens, self.tokens)

    def prompts(self, prompt_tokens: float) -> float:
        return 0.010 + 0.0001 * prompt_tokens


def load(ratio: float, prompt: float = 1000.0, most: float = 4000.0, crowd: int = 64) -> PromptLoad:
    return PromptLoad(0.0, ratio, prompt, prompt, most, crowd, drafting=False)


@given(COUNTS, st.floats(1.0, 8.0))
def test_without_prompts_a_token_costs_what_a_step_of_this_batch_does(decoding: int, tokens: float) -> None:
    cost = (0.010 + 0.001 * decoding) / (decoding * tokens)
    assert token_cost(Line(tokens), decoding, NO_PROMPTS, True) == pytest.approx(TokenCost(cost, cost))


def test_few_prompts_are_beside_few_steps_as_many_at_a_time_as_was_seen() -> None:
    # 10 sequences: 200 tokens of prompts are due in a step, so that one in five has a prompt of 1,000.
    found = token_cost(Line(), 10, load(20.0, crowd=10), drafting=False)
    assert found.whole == pytest.approx((0.020 + 0.2 * 0.1) / 10)
    # One token of prompts more costs 0.1 ms: these have no steps of their own, as Line's cost less beside decoding.
    assert found.decoding == pytest.approx(found.whole - 20.0 * 0.2 * 0.110 / 200)


def test_in_the_other_mode_requests_end_independently_of_each_other() -> None:
    found = token_cost(Line(2.0), 10, load(20.0, crowd=10), drafting=True)
    share = 1.0 - exp(-0.4)
    assert found.whole == pytest.approx((0.020 + share * 0.0001 * 400 / share) / 20)


def test_prompts_that_fill_each_step_leave_a_small_batch_and_no_more_tokens_than_they_bring() -> None:
    plain = token_cost(Line(), 64, load(400.0), drafting=False)
    drafts = token_cost(Line(5.0), 64, load(400.0), drafting=True)
    # 4,000 tokens of prompts a step, 400 for a token: 10 tokens a step, of 10 sequences, or of 2 that draft.
    assert plain.whole == pytest.approx((0.010 + 0.010 + 0.4) / 10)
    assert drafts.whole == pytest.approx((0.010 + 0.002 + 0.4) / 10)
    assert (plain.decoding, drafts.decoding) == (pytest.approx(0.001), pytest.approx(0.0002))


def test_a_batch_of_less_than_one_takes_its_part() -> None:
    found = token_cost(Line(), 64, load(8000.0), drafting=False)
    assert found.whole == pytest.approx((0.410 + 0.001 * 0.5) / 0.5)


@given(COUNTS, st.floats(0.01, 1e6), st.floats(1.0, 4000.0), COUNTS, st.booleans(), st.floats(1.0, 8.0))
def test_a_token_costs_no_less_with_prompts_than_without_them(
    decoding: int, ratio: float, prompt: float, crowd: int, drafting: bool, tokens: float
) -> None:
    found = token_cost(Line(tokens), decoding, load(ratio, prompt, crowd=crowd), drafting)
    assert 0.0 < found.decoding <= found.whole


BACKLOG = 'prompt = {}\noutput = {}\n[arrivals]\nkind = "closed"\nusers = 64\nthink_s = 0\n'
VARIED = '{{ kind = "uniform", min = {}, max = {} }}'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hardware", "model", "draft", "prompt", "requests"),
    [
        ("elmoe3d-8gb", "glm-4.7-flash", "quant", 8192, 128),
        ("elmoe3d-4gb", "deepseek-v2-lite", "quant", 8192, 128),
        ("elmoe3d-8gb", "deepseek-v2-lite", "quant", 8192, 128),
        ("elmoe3d-8gb", "gpt-oss-20b", "elastic", 8192, 128),
        ("elmoe3d-8gb", "qwen3-30b-a3b", "quant", 2048, 384),
        ("elmoe3d-8gb", "qwen3-30b-a3b", "elastic", 2048, 384),
    ],
)
def test_in_a_backlog_of_prompts_the_default_loses_to_no_fixed_mode(
    tmp_path: Path, hardware: str, model: str, draft: str, prompt: int, requests: int
) -> None:
    path = tmp_path / "backlog.toml"
    prompts, outputs = (VARIED.format(each // 2, 3 * each // 2) for each in (prompt, 128))
    path.write_text(BACKLOG.format(prompts, outputs), encoding="utf-8")
    took_s = dict[str, float]()
    for mode in ("fixed-ar", "fixed-sd", "tau", "cost"):
        scenario = Scenario(hardware=hardware, model=model, draft=draft, mode=mode, max_num_seqs=64)
        outcomes, _ = play(load_workload(path, requests=requests), scenario)
        took_s[mode] = max(one.last_s for one in outcomes)
    best = min(took_s["fixed-ar"], took_s["fixed-sd"])
    assert took_s["tau"] < 1.02 * best
    assert took_s["cost"] < 1.06 * best
