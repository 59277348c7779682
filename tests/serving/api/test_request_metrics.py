"""What the metrics tell of requests over HTTP: how many, how they ended, and how long their tokens took."""

import time

import httpx
import openai
import pytest
from prometheus_client.parser import text_string_to_metric_families

from serving.process.server_process import ServerProcess
from tests.conftest import CONTEXT
from tests.patience import until
from tests.serving.api.test_http import PLAIN, idle, metrics, settled

WHOLE = {"ignore_eos": True}
WHOLE_ANSWERS, LEFT = "vllm:request_success_totallength", "vllm:request_success_totalabort"


def test_metrics_count_n_once_a_request(emulator: ServerProcess, client: openai.OpenAI) -> None:
    before = settled(emulator)
    client.completions.create(**PLAIN | {"n": 3, "prompt": ["Once", "Twice"], "temperature": 1.0})
    now = settled(emulator)
    names = [f"vllm:request_{name}" for name in ("params_n_count", "params_n_sum", "max_num_generation_tokens_count")]
    assert [now[name] - before.get(name, 0.0) for name in names] == [2, 6, 2]
    assert now["vllm:request_generation_tokens_count"] - before["vllm:request_generation_tokens_count"] == 6


def test_a_client_that_goes_away_frees_the_device(emulator: ServerProcess, client: openai.OpenAI) -> None:
    def steps() -> float:
        return metrics(emulator)["foreserve_step_latency_seconds_count"]

    def rests() -> bool:
        before = steps()
        time.sleep(1)
        return steps() == before

    # Where this machine was busy for as long as the answer took, nobody has gone away from it.
    for _ in range(5):
        before = settled(emulator)
        with client.completions.create(**PLAIN | {"max_tokens": 900}, stream=True, extra_body=WHOLE) as stream:
            next(iter(stream))
        until(lambda: idle(emulator))
        ended = settled(emulator)
        if ended[WHOLE_ANSWERS] == before[WHOLE_ANSWERS]:
            break
    assert ended[LEFT] == before[LEFT] + 1
    until(rests)


def test_vllms_series_of_steps_have_all_tokens_of_a_request(client: openai.OpenAI, emulator: ServerProcess) -> None:
    # The step in which somebody leaves has no tokens, and is told of without those of the next request.
    with client.completions.create(**PLAIN | {"max_tokens": 900}, stream=True, extra_body=WHOLE) as left:
        next(iter(left))
    until(lambda: idle(emulator))
    for number in range(5):
        before = settled(emulator)
        prompt = f"Prompt {number} that nobody else asks, of which nothing is cached. " * 3
        usage = client.completions.create(**PLAIN | {"prompt": prompt}, extra_body=WHOLE).usage
        after = settled(emulator)
        grown = {name: after[name] - before.get(name, 0.0) for name in after}
        assert grown["vllm:iteration_tokens_total_sum"] >= usage.prompt_tokens + 8
        assert grown["vllm:request_num_preemptions_count"] == 1 and not grown["vllm:request_num_preemptions_sum"]
        # A device makes steps until the last token is there: a late one costs some.
        if not grown["foreserve_underruns_total"]:
            assert grown["vllm:iteration_tokens_total_sum"] == usage.prompt_tokens + 8
            return
    pytest.skip("The token source was late each time.")


def test_the_cache_of_each_device_tells_its_size(emulator: ServerProcess) -> None:
    found = httpx.get(f"{emulator.http_url}/metrics", params={"name[]": "vllm:cache_config_info"}, timeout=60).text
    (family,) = text_string_to_metric_families(found)
    assert [sample.labels["engine"] for sample in family.samples] == ["0", "1"]
    for labels in (sample.labels for sample in family.samples):
        tokens = int(labels["block_size"]) * int(labels["num_gpu_blocks"])
        assert labels["kv_cache_size_tokens"] == str(tokens)
        assert float(labels["kv_cache_max_concurrency"]) == pytest.approx(tokens / CONTEXT, abs=1e-4)
