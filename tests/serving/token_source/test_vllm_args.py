"""Settings of vLLM that depend on its build."""

import os

import pytest

from serving.scenario.scenario import Scenario, ScenarioError
from serving.token_source import vllm_args
from serving.token_source.vllm_args import (
    BUNDLED_ON_GPU,
    GPU_WORKER,
    SECOND_RUNNER,
    has_routes,
    on_cpu,
    prepare_environment,
    vllm_flags,
)


def test_routes_are_followed_on_a_cpu_and_refused_on_a_gpu() -> None:
    assert has_routes(Scenario(residency="trace"), cpu=True)
    assert not has_routes(Scenario(), cpu=False)
    with pytest.raises(ScenarioError, match=r"'trace', which needs the token model on a CPU.*allowed is 'analytic'"):
        has_routes(Scenario(residency="trace"), cpu=False)


def test_gpus_have_the_model_runner_that_takes_forced_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SECOND_RUNNER, raising=False)
    prepare_environment(Scenario().token_model)
    assert os.environ.get(SECOND_RUNNER) == (None if on_cpu() else "0")


@pytest.mark.parametrize("bundled", [True, False])
def test_a_gpu_samples_by_our_worker_and_a_bundled_model_leaves_its_memory_to_others(
    monkeypatch: pytest.MonkeyPatch, bundled: bool
) -> None:
    monkeypatch.setattr(vllm_args, "on_cpu", lambda: False)
    scenario = Scenario() if bundled else Scenario(token_model="Qwen/Qwen3-0.6B")
    flags = vllm_flags(scenario, 4096)
    assert f"--worker-cls={GPU_WORKER}" in flags
    assert all((flag in flags) == bundled for flag in BUNDLED_ON_GPU)
    assert not {"--enforce-eager", "--dtype=float32"} & set(flags)
