"""Is a tail that is the host's told from one of the devices, and never one of the devices taken for the host's?"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.load.emulator import difference, parse
from serving.load.tails import ModelledTtft, attainment_refusal, modelled_ttft, percentile_refusal

BOUNDS_S = (0.1, 0.25, 0.5, 1.0, 2.5, float("inf"))


def modelled(times_s: list[float]) -> ModelledTtft:
    return ModelledTtft(BOUNDS_S, tuple(float(sum(time <= bound for time in times_s)) for bound in BOUNDS_S))


@given(st.lists(st.floats(0.01, 2.4), min_size=1, max_size=300), st.floats(0.01, 2.4))
def test_what_clients_saw_as_the_devices_gave_it_is_never_refused(times_s: list[float], limit_s: float) -> None:
    known, seen = modelled(times_s), np.array(times_s)
    for quantile in (0.5, 0.95, 0.99):
        assert percentile_refusal(known, quantile, float(np.quantile(seen, quantile))) is None
    assert attainment_refusal(known, limit_s, float((seen <= limit_s).mean())) is None


def test_a_tail_of_the_host_is_said_to_be_that() -> None:
    known = modelled([0.3] * 100)
    assert percentile_refusal(known, 0.99, 0.52) is None
    sentence = percentile_refusal(known, 0.99, 1.02)
    assert sentence and "1,020 ms as clients saw it" in sentence and "500 ms at most on the devices" in sentence
    sentence = attainment_refusal(known, 1.0, 0.981)
    assert sentence and "98.1% of the first tokens" in sentence and "100.0% or more" in sentence
    assert attainment_refusal(known, 1.0, 0.995) is None


def test_a_limit_within_a_bucket_is_judged_by_those_below_it() -> None:
    assert modelled([0.3, 0.7]).surely_within(0.9) == 0.5
    assert modelled([0.3, 0.7]).surely_within(0.05) == 0.0


def test_a_histogram_that_did_not_grow_tells_nothing() -> None:
    assert modelled_ttft({}) is None
    assert modelled_ttft({0.1: 0.0, 1.0: 0.0}) is None
    assert modelled_ttft({0.1: 5.0, 1.0: 3.0}) is None


def scrape(counts: tuple[int, ...], late: int) -> str:
    name = "vllm:time_to_first_token_seconds"
    buckets = "".join(f'{name}_bucket{{le="{b}"}} {n}\n' for b, n in zip(("0.5", "1.0", "+Inf"), counts, strict=True))
    return (
        f'foreserve_info{{speed="1.0"}} 1\n# TYPE {name} histogram\n{buckets}{name}_count {counts[-1]}\n'
        f"{name}_sum {counts[-1] * 0.4}\nforeserve_delivery_delay_seconds_count {counts[-1]}\n"
        f"foreserve_delivery_delay_seconds_sum {late * 0.01}\nforeserve_step_latency_seconds_count {counts[-1]}\n"
        f"foreserve_step_latency_seconds_sum {counts[-1]}\nforeserve_pacing_error_seconds_count {counts[-1]}\n"
        "foreserve_pacing_error_seconds_sum 0\nforeserve_released_tokens_total 100\n"
    )


@pytest.mark.parametrize(("late", "speed"), [(4, None), (40, 0.1), (400, 0.01)])
def test_a_run_is_judged_by_what_it_added_and_a_speed_is_proposed(late: int, speed: float | None) -> None:
    before, after = parse(scrape((10, 10, 10), 0)), parse(scrape((20, 20, 20), late))
    assert before is not None and after is not None
    found = difference(before, after)
    assert found.ttft == ModelledTtft((0.5, 1.0, float("inf")), (10.0, 10.0, 10.0))
    refusal = found.refusal()
    assert (
        refusal is None
        if speed is None
        else refusal and f"Try `serve --speed {0.8 * 0.05 * 0.4 / (late / 1000):.1g}`" in refusal
    )
    tail = found.tail_refusal(0.5, 0.9)
    assert tail and "Try `serve --speed 0.5`" in tail and found.tail_refusal(0.5, 1.0) is None
