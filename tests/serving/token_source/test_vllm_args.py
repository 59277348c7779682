"""Settings of vLLM that depend on its build."""

import os

import pytest

from serving.scenario.scenario import Scenario, ScenarioError
from serving.token_source.vllm_args import SECOND_RUNNER, has_routes, on_cpu, prepare_environment


def test_routes_are_followed_on_a_cpu_and_refused_on_a_gpu() -> None:
    assert has_routes(Scenario(residency="trace"), cpu=True)
    assert not has_routes(Scenario(), cpu=False)
    with pytest.raises(ScenarioError, match=r"'trace', which needs the token model on a CPU.*allowed is 'analytic'"):
        has_routes(Scenario(residency="trace"), cpu=False)


def test_gpus_have_the_model_runner_that_takes_forced_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SECOND_RUNNER, raising=False)
    prepare_environment(Scenario().token_model)
    assert os.environ.get(SECOND_RUNNER) == (None if on_cpu() else "0")
