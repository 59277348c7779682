"""Do vLLM's series of steps, preemptions and the KV cache count what vLLM's own do?"""

import dataclasses

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from serving.call import Choices
from serving.flight import TokenNews, mark
from serving.scenario.scenario import Scenario
from serving.simulation.simulator import Simulator
from serving.telemetry.metrics import Metrics
from serving.types import Release, Request
from tests.serving.telemetry.metrics.samples import FIGURES, finish, flight, measured, node, record, release

LABELS = {"model_name": "m", "engine": "0"}
SIZES = st.tuples(st.integers(1, 3000), st.integers(1, 60))


def value(registry: CollectorRegistry, name: str, **labels: str) -> float:
    found = registry.get_sample_value(f"vllm:{name}", LABELS | labels)
    assert found is not None, name
    return found


def play(metrics: Metrics, scenario: Scenario, requests: list[Request]) -> int:
    """Tell metrics of a run as an edge does, the tokens of a step before the step; return how many steps it had."""
    outcomes, records = Simulator(scenario, leaps=False).serve(requests)
    unbegun = sorted(outcomes, key=lambda outcome: outcome.first_s)
    for each in records:
        ended_s = each.start_s + each.latency_s + 1e-9
        first = [outcome for outcome in unbegun if outcome.first_s <= ended_s]
        del unbegun[: len(first)]
        if first:
            metrics.on_tokens(TokenNews(0, len(first), 0, {}, [flight() for _ in first]))
        metrics.on_step(each)
    assert not unbegun
    return len(records)


@pytest.mark.parametrize("mode", ["fixed-ar", "fixed-sd"])
@settings(max_examples=20)
@given(sizes=st.lists(SIZES, min_size=1, max_size=8), budget=st.sampled_from([256, 8192]))
@example(sizes=[(200, 10)], budget=8192)
@example(sizes=[(200, 1)], budget=8192)
def test_iterations_have_all_tokens_of_prompts_and_answers(
    mode: str, sizes: list[tuple[int, int]], budget: int
) -> None:
    metrics, registry = measured()
    scenario = Scenario(mode=mode, max_num_seqs=4, max_num_batched_tokens=budget)
    requests = [Request(f"r-{i}", 0.2 * i, prompt, output, seed=i) for i, (prompt, output) in enumerate(sizes)]
    steps = play(metrics, scenario, requests)
    assert value(registry, "iteration_tokens_total_count") == steps
    assert value(registry, "iteration_tokens_total_sum") == sum(map(sum, sizes))


def test_the_step_that_ends_a_prompt_counts_the_token_that_it_gives() -> None:
    metrics, registry = measured()
    metrics.on_step(record(phase="prefill", new_tokens=64))
    assert value(registry, "iteration_tokens_total_sum") == 64
    release(metrics, flight(), 1, None)
    metrics.on_step(record(phase="mixed", new_tokens=36))
    assert value(registry, "iteration_tokens_total_sum") == 64 + 36 + 1
    release(metrics, flight(), 3, 0.02)
    metrics.on_step(record(mode="sd", new_tokens=1, accepted=2))
    assert value(registry, "iteration_tokens_total_sum") == 101 + 3
    assert value(registry, "iteration_tokens_total_count") == 3


def test_each_phase_of_the_first_request_is_seen_by_a_rate() -> None:
    _, registry = measured()
    phases = "request_queue_time", "request_prefill_time", "request_decode_time", "request_inference_time"
    lengths = "request_prompt_tokens", "request_generation_tokens"
    for name in (*(f"{each}_seconds" for each in phases), *lengths):
        assert value(registry, f"{name}_count") == 0


def test_a_first_token_that_is_overdue_is_counted_when_it_comes() -> None:
    metrics, registry = measured()
    metrics.on_step(record(phase="prefill", new_tokens=64))
    metrics.on_tokens(TokenNews(0, 1, 0, {}, [flight()], overdue=True))
    assert value(registry, "iteration_tokens_total_sum") == 64 + 1
    metrics.on_step(record(new_tokens=1))
    assert value(registry, "iteration_tokens_total_sum") == 64 + 1 + 1


def test_preemptions_are_counted_by_request_and_in_all() -> None:
    metrics, registry = measured()
    never, twice = flight(), flight()
    flights, gone = {each.request.id: each for each in (never, twice)}, "r-gone"
    for preempted in ([twice.request.id], [twice.request.id, gone], []):
        step = record(preemptions=len(preempted))
        mark(flights, Release(0, 1.0, [], record=step, start_s=0.9, preempted=preempted))
        metrics.on_step(step)
    for each in (never, twice):
        metrics.on_begin(each)
        finish(metrics, each, "length")
    assert value(registry, "num_preemptions_total") == 3
    assert value(registry, "request_num_preemptions_sum") == 2
    assert value(registry, "request_num_preemptions_count") == 2
    assert value(registry, "request_num_preemptions_bucket", le="1.0") == 1


def test_choices_of_one_request_count_once_where_vllm_counts_requests() -> None:
    metrics, registry = measured()
    choices = Choices(3)
    for tokens in (5, 8, 2):
        assert registry.get_sample_value("vllm:request_params_n_count", LABELS) in (None, 0)
        each = dataclasses.replace(flight(), choices=choices, tokens=[1] * tokens)
        metrics.on_begin(each)
        finish(metrics, each, "length")
    assert value(registry, "request_generation_tokens_count") == 3
    assert (value(registry, "request_params_n_count"), value(registry, "request_params_n_sum")) == (1, 3)
    assert value(registry, "request_max_num_generation_tokens_count") == 1
    assert value(registry, "request_max_num_generation_tokens_sum") == 8


def cache_labels(registry: CollectorRegistry) -> list[dict[str, str]]:
    families = (family for family in registry.collect() if family.name == "vllm:cache_config_info")
    return [sample.labels for family in families for sample in family.samples]


def test_the_cache_tells_its_size_and_how_many_longest_requests_it_holds() -> None:
    metrics, registry = measured()  # blocks of 16 tokens, and a context of 4096
    (labels,) = cache_labels(registry)
    blocks = FIGURES.kv_capacity_tokens // 16
    assert (labels["block_size"], labels["num_gpu_blocks"]) == ("16", str(blocks))
    assert labels["kv_cache_size_tokens"] == str(16 * blocks)
    assert float(labels["kv_cache_max_concurrency"]) == pytest.approx(16 * blocks / 4096, abs=1e-4)
    smaller = dataclasses.replace(node(0), device_limits=FIGURES._replace(kv_capacity_tokens=4096 * 3 + 7))
    metrics.on_change(smaller)
    (labels,) = cache_labels(registry)
    assert (labels["kv_cache_size_tokens"], labels["kv_cache_max_concurrency"]) == ("12288", "3.0")
