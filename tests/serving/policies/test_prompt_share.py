"""Does `cost` know a backlog of prompts, in which a token later costs next to nothing?"""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.policies.prompt_share import MEMORY_S, PromptShare
from serving.scenario.scenario import Scenario
from serving.simulation.play import play
from serving.workload import load_workload

BACKLOG = 'prompt = 8192\noutput = 128\n[arrivals]\nkind = "closed"\nusers = 64\nthink_s = 0\n'


@given(st.lists(st.tuples(st.floats(0.0, 100.0), st.booleans()), max_size=30))
def test_a_share_is_one(steps: list[tuple[float, bool]]) -> None:
    share = PromptShare()
    for worked_s, beside in steps:
        before = share.value
        share.note(worked_s, beside)
        assert 0.0 <= share.value <= 1.0
        assert (share.value >= before) if beside else (share.value <= before)


def test_what_was_long_ago_is_forgotten_and_the_length_of_steps_matters_not() -> None:
    many, one = PromptShare(), PromptShare()
    for _ in range(1000):
        many.note(MEMORY_S / 1000, True)
    one.note(MEMORY_S, True)
    assert many.value == pytest.approx(one.value) == pytest.approx(0.632, abs=1e-3)
    one.note(10 * MEMORY_S, False)
    assert one.value < 1e-4


@pytest.mark.parametrize(
    ("hardware", "model", "draft"),
    [
        ("elmoe3d-8gb", "glm-4.7-flash", "quant"),
        ("elmoe3d-4gb", "deepseek-v2-lite", "quant"),
        ("elmoe3d-8gb", "gpt-oss-20b", "elastic"),
    ],
)
def test_in_a_backlog_of_long_prompts_cost_loses_to_no_fixed_mode(
    tmp_path: Path, hardware: str, model: str, draft: str
) -> None:
    path = tmp_path / "backlog.toml"
    path.write_text(BACKLOG, encoding="utf-8")
    took_s = dict[str, float]()
    for mode in ("fixed-ar", "fixed-sd", "cost"):
        scenario = Scenario(hardware=hardware, model=model, draft=draft, mode=mode, max_num_seqs=64)
        outcomes, _ = play(load_workload(path, requests=128), scenario)
        took_s[mode] = max(one.last_s for one in outcomes)
    assert took_s["cost"] < 1.02 * min(took_s["fixed-ar"], took_s["fixed-sd"])
