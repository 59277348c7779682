"""Settings of vLLM that depend on its build."""

import os
import subprocess
import sys

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


def test_what_only_vllms_developers_could_mend_is_not_told() -> None:
    """`record` and `locality` have vLLM in their own process, and print what they found."""
    program = (
        "import sys, warnings\n"
        "from serving.token_source.vllm_args import prepare_environment\n"
        "prepare_environment(sys.argv[1])\n"
        "warnings.warn_explicit('of torch', FutureWarning, 'dispatcher.py', 1, 'vllm.triton_utils.dispatcher')\n"
        "import os; print(os.environ['TORCH_CPP_LOG_LEVEL'])\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "TORCH_CPP_LOG_LEVEL"}
    command = [sys.executable, "-c", program, Scenario().token_model]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert (said.stdout, said.stderr) == ("ERROR\n", "")
