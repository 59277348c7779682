"""Token models that are not there."""

import pytest

from serving.token_model.config_file import context_of, hub_found
from serving.usage_error import UsageError


def test_a_model_that_neither_cache_nor_hub_has_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    hub_found.cache_clear()
    try:
        with pytest.raises(UsageError, match=r"'nope/nope'.* http://127\.0\.0\.1:9 does not answer"):
            context_of("nope/nope")
    finally:
        hub_found.cache_clear()
