"""Token models that are not there."""

from pathlib import Path

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


@pytest.mark.parametrize(("variable", "found"), [("no_proxy", False), ("https_proxy", True)])
def test_a_proxy_alone_stands_for_the_hub(monkeypatch: pytest.MonkeyPatch, variable: str, found: bool) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv(variable, "localhost")
    hub_found.cache_clear()
    try:
        assert hub_found() is found
    finally:
        hub_found.cache_clear()


@pytest.mark.parametrize("text", ["[]", "null", '{"text_config": 3}', '{"max_position_embeddings": null}', "{"])
def test_a_configuration_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(UsageError, match="must be a folder with a model"):
        context_of(str(tmp_path))
