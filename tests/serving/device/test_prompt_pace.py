"""Is what queues take a prompt to take what its chunks take on the device?"""

import pytest

from device_model.load import load_device
from device_model.step import StepPlan
from serving.device.device_spec import prompt_pace
from serving.policies.prompt_pace import Curve, PromptPace

DEVICES = [
    ("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b"),
    ("elmoe3d", "elmoe3d-4gb", "qwen3-30b-a3b"),
    ("gpu", "2xh100", "mixtral-8x7b"),
    ("gpu", "h100", "qwen3-30b-a3b"),
]


@pytest.mark.parametrize("device", DEVICES, ids=" ".join)
# An H100's host takes longer for a chunk of 2,048 than the chunk itself, however much that reads.
@pytest.mark.parametrize(("chunk", "off"), [(2048, 0.3), (8192, 0.15)])
def test_a_prompt_is_expected_to_take_what_it_takes(device: tuple[str, str, str], chunk: int, off: float) -> None:
    loaded = load_device(*device)
    pace = prompt_pace(loaded)
    for tokens in (300, 600, 1024, 3000, 8192, 16_384, 32_000):
        starts = range(0, tokens, chunk)
        plans = [StepPlan.of((min(chunk, tokens - start), start)) for start in starts]
        takes_s = sum(float(loaded.probe(plan).latency_s[0]) for plan in plans)
        assert pace.prompt_s(tokens, chunk) == pytest.approx(takes_s, rel=off), tokens


def test_a_prompt_of_nothing_and_one_of_a_single_chunk() -> None:
    pace = PromptPace(Curve((1, 101), (1.0, 2.0)), reading_s=1.0)
    assert pace.prompt_s(0, 8) == 0.0 and pace.prompt_s(51, 51) == pytest.approx(1.5)
    assert pace.prompt_s(52, 51) == pytest.approx(1.5 + 1.0 + 51)
