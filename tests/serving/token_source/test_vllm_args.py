"""vLLM's settings: models that are not there."""

import pytest

from serving.scenario.scenario import ScenarioError
from serving.token_source.vllm_args import context_of, hub_found


def test_a_model_that_neither_cache_nor_hub_has_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    hub_found.cache_clear()
    try:
        with pytest.raises(ScenarioError, match=r"'nope/nope'.* http://127\.0\.0\.1:9 does not answer"):
            context_of("nope/nope")
    finally:
        hub_found.cache_clear()
