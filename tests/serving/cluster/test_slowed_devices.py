"""Devices of a running server are slowed down, or stand still: their steps tell of it, until that is cleared."""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from serving.device.slow_tier import LEASE_S
from serving.types import StepRecord
from tests.conftest import MODEL
from tests.patience import until
from tests.serving.cluster.served_devices import LONG, Served
from tests.serving.cluster.test_recovery import REQUESTS, TOKENS, ask
from tests.serving.observed_server import Observed


@pytest.fixture(scope="module")
def served(observed_emulator: Observed) -> Served:
    return Served(observed_emulator.child, observed_emulator.steps)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_device_that_joins_a_throttled_tier_starts_throttled(served: Served) -> None:
    def added() -> int:
        answer = served.http.post("/devices", json={"device": "elmoe3d-8gb"})
        assert answer.status_code == 200, answer.text
        return int(answer.json()["devices"][0]["index"])

    answers: list[list[list[int]]] = []

    def decode_s(index: int) -> float:
        """Median latency of the device's steps, while each device has one request, the least loaded the next."""
        before = served.logged()
        answers.append(served.ask_all())
        steps = served.decode_steps(before, REQUESTS * (LONG - 1))
        # Its first ones, while contexts are short.
        own = [step for step in steps if step.device == index][:100]
        assert {step.batch for step in own} == {1}
        return float(np.median([step.latency_s for step in own]))

    def leave(index: int) -> None:
        served.http.delete(f"/devices/{index}")
        served.until(index, "gone")

    if (first := added()) % 2:  # It would be the last one on its tier.
        leave(first)
        first = added()
    throttled = served.inject(f"lpddr: left=0.55, device={first}")
    second = added()
    assert second == first + 1 and served.devices()[second]["faults"] == []
    with_it = decode_s(second)
    served.clear(throttled)
    assert 1.2 < with_it / decode_s(second) < 1.85
    assert answers[0] == answers[1]
    leave(first)
    leave(second)


def seen(served: Served, fault: str) -> tuple[float, float, list[StepRecord]]:
    """Mean latency of a lone request's steps before a fault, and with it, and all of its steps."""
    before = served.logged()
    arrived: list[int] = []
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask, served.openai, 0, arrived, LONG)
        until(lambda: len(arrived) >= 50)
        told = served.inject(fault)
        assert len(answer.result(timeout=120)) == LONG
    served.http.delete(f"/faults/{told}")
    # Its first token comes of its prompt.
    steps = served.decode_steps(before, LONG - 1)
    latencies = [step.latency_s for step in steps]
    return float(np.mean(latencies[:20])), float(np.mean(latencies[-20:])), steps


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("fault", "least", "most"),
    [
        ("lpddr: left=0.5", 1.3, 2.01),
        ("hb: left=0.5", 1.3, 4.0),
        ("clock: left=0.5", 1.05, 2.01),
    ],
)
def test_what_breaks_slows_the_steps_down_and_is_mended(served: Served, fault: str, least: float, most: float) -> None:
    before, after, _ = seen(served, fault)
    assert least < after / before < most
    again, _, _ = seen(served, "stall: for=0.001")
    assert again == pytest.approx(before, rel=0.02)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_stalled_device_stands_still_for_so_long(served: Served) -> None:
    _, _, steps = seen(served, "stall: for=3")
    gaps = np.diff([step.start_s for step in steps]) - [step.latency_s for step in steps[:-1]]
    # From the moment that it was told, which was within a step.
    assert 2.5 < gaps.max() < 3.1
    assert sorted(gaps)[-2] < 1.0


@pytest.mark.timeout(300)
def test_a_stall_that_is_cleared_is_over(served: Served) -> None:
    told = served.inject("stall: for=60")
    served.http.delete(f"/faults/{told}")
    began = time.monotonic()
    assert len(ask(served.openai, 0, [])) == TOKENS
    assert time.monotonic() - began < 50


@pytest.mark.timeout(300)
def test_a_step_under_way_does_not_outlive_what_slowed_it_down(served: Served) -> None:
    """A prompt of a second on a device that has a hundredth left: more than a minute, but for what is cleared."""
    told: list[int] = []
    with ThreadPoolExecutor(2) as pool:
        answer = pool.submit(ask, served.openai, 0, [])
        time.sleep(0.3)
        told += [served.inject("lpddr: left=0.01"), served.inject("clock: left=0.01")]
        long = {"prompt": [5] * 900, "max_tokens": 2, "model": MODEL}
        prompt = pool.submit(served.openai.completions.create, **long)
        time.sleep(2)
        began = time.monotonic()
        for fault in told:
            served.clear(fault)
        assert len(answer.result(timeout=60)) == TOKENS
        assert prompt.result(timeout=60).usage.completion_tokens == 2
    assert time.monotonic() - began < 50


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_devices_on_one_lpddr_slow_each_other_down(served: Served) -> None:
    alone, _, _ = seen(served, "stall: for=0.001")
    before = served.logged()
    arrived: list[list[int]] = [[], []]
    with ThreadPoolExecutor(2) as pool:
        # The second one goes to the other device.
        for seed in (0, 1):
            pool.submit(ask, served.openai, seed, arrived[seed], LONG)
            until(lambda seed=seed: arrived[seed])
    assert [len(tokens) for tokens in arrived] == [LONG] * 2
    found = served.decode_steps(before, 2 * (LONG - 1))
    steps = {device: [step for step in found if step.device == device] for device in (0, 1)}
    begin = max(steps[device][0].start_s for device in (0, 1)) + 2 * LEASE_S
    end = min(steps[device][-1].start_s for device in (0, 1))
    for device in (0, 1):
        at_once = [step.latency_s for step in steps[device] if begin < step.start_s < end]
        assert 1.1 < np.median(at_once) / alone < 2.0
