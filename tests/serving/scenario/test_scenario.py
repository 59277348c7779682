"""Scenario files: what is wrong is named by file, line and key, with what is allowed."""

from pathlib import Path
from typing import Any

import pytest

from serving.scenario.scenario import BUNDLED_MODEL, Scenario, ScenarioError
from serving.scenario.scenario_file import load_scenario


def load(tmp_path: Path, text: str) -> Scenario:
    path = tmp_path / "a.toml"
    path.write_text(text)
    return load_scenario(path)


def test_a_file_overrides_the_defaults_and_options_override_the_file(tmp_path: Path) -> None:
    scenario = load(tmp_path, 'devices = 4\nspeed = 2\napi_keys = ["secret"]\n')
    assert (scenario.devices, scenario.speed, scenario.api_keys) == (4, 2.0, ("secret",))
    assert scenario.with_options({"devices": 2, "speed": None}) == load(
        tmp_path, 'devices = 2\nspeed = 2.0\napi_keys = ["secret"]'
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("devices = 1\ndevizes = 2\n", ["line 2", "`devizes`", "devices"]),
        ("\n\nspeed = 'fast'\n", ["line 3", "`speed`", "a number"]),
        ("devices = true\n", ["line 1", "`devices`", "whole number"]),
        ("devices = 1.5\n", ["line 1", "`devices`", "whole number"]),
        ("devices = 0\n", ["line 1", "`devices`", "at least 1"]),
        ("host = ''\nspeed = -1\n", ["line 2", "`speed`", "above 0"]),
        ("speed = nan\n", ["line 1", "`speed`"]),
        ("http_port = 70000\n", ["line 1", "`http_port`", "65535"]),
        ("http_port = 9000\ngrpc_port = 9000\n", ["line 2", "`grpc_port`", "must differ"]),
        ("devices = 100000\n", ["line 1", "`devices`", "at most 256"]),
        ("fleet = ['999999999999999999999 x elmoe3d-4gb']\n", ["line 1", "`fleet`", "from 1 to 256"]),
        ("early_rejection = 1\n", ["line 1", "`early_rejection`", "true or false"]),
        (
            "speed = 1\nslo_classes = ['chat: ttft_ms=soon']\n",
            ["line 2", "`slo_classes`", "`ttft_ms` must be a number"],
        ),
        ("slo_classes = ['chat:']\ndefault_slo = 'batch'\n", ["line 2", "`default_slo`", "one of chat"]),
        ("slo_classes = []\ndefault_slo = 'chat'\n", ["line 2", "`default_slo` is 'chat'", "it must be empty"]),
        ("key_tokens_per_min = -1\n", ["line 1", "`key_tokens_per_min`", "at least 0"]),
        (f"max_num_seqs = {10**30}\n", ["line 1", "`max_num_seqs`", "at most 16384"]),
        (f"max_queue = {10**30}\n", ["line 1", "`max_queue`", "a whole number of 64 bits"]),
        (f"block_tokens = {2**62}\n", ["line 1", "`block_tokens`", "at most 4096"]),
        ("max_model_len = 100_000_000\n", ["line 1", "`max_model_len`", "at most 16777216"]),
        ("shared_ext = 257\n", ["line 1", "`shared_ext`", "at most 256"]),
        ("standby_sources = 1000\n", ["line 1", "`standby_sources`", "at most 64"]),
        ("speed = 1e-300\n", ["line 1", "`speed`", "at least 1e-06"]),
        ("speed = 1e300\n", ["line 1", "`speed`", "at most 1e+06"]),
        ("topic_hold_s = 2\n", ["line 1", "`topic_hold_s` is 2", "`batching` is 'fcfs'"]),
        (f"seed = {-(10**30)}\n", ["line 1", "`seed`", "a whole number of 64 bits"]),
        (f"patience_s = {10**400}\n", ["line 1", "`patience_s`", "finite and at least 0"]),
        ("block_tokens = 0\n", ["line 1", "`block_tokens`", "at least 1"]),
        ("api_keys = [1]\n", ["line 1", "`api_keys`", "list of strings"]),
        ("[devices]\nx = 1\n", ["line 1", "`devices`", "whole number"]),
        ("devices = \n", ["not TOML", "line 1"]),
        ("devices = 1\ndevices = 2\n", ["not TOML"]),
    ],
)
def test_a_wrong_file_is_refused_in_one_sentence(tmp_path: Path, text: str, said: list[str]) -> None:
    with pytest.raises(ScenarioError) as caught:
        load(tmp_path, text)
    message = str(caught.value)
    assert "\n" not in message
    assert all(word in message for word in ["a.toml", *said]), message


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"nowhere\.toml"):
        load_scenario(tmp_path / "nowhere.toml")


def test_a_bundled_token_model_may_be_named() -> None:
    named = Scenario(token_model="foreserve-tiny")
    assert named.token_model == str(BUNDLED_MODEL.parent / "foreserve-tiny")
    assert Scenario().token_model == str(BUNDLED_MODEL)
    assert Scenario(token_model="Qwen/Qwen3-30B-A3B").token_model == "Qwen/Qwen3-30B-A3B"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"residency": "psychic"}, "`residency` is 'psychic': it must be analytic or trace"),
        ({"acceptance": "guessed", "draft": "elastic"}, "`acceptance` is 'guessed': it must be published or measured"),
        ({"acceptance": "measured", "draft": "none"}, "only drafts are accepted"),
        ({"swap": "never", "placement": "topic"}, "`swap` is 'never': it must be auto or always or pays"),
        ({"swap": "always", "placement": "hot"}, "only experts that follow topics"),
        ({"usage": "published"}, "only experts that are placed by topic"),
        (
            {"usage": "published", "placement": "topic", "residency": "trace", "hardware": "stratum-s"},
            "the table that belongs to them",
        ),
        ({"preemption": "spill"}, "nowhere to spill to"),
        ({"batching": "random"}, "`batching` is 'random': it must be fcfs or priority or slo-aware or topic-aware"),
        ({"mode": "ar"}, "`mode` is 'ar': it must be cost or fixed-ar or fixed-sd or tau"),
        ({"patience_s": -1.0}, "`patience_s` is -1.0: it must be at least 0"),
    ],
)
def test_what_does_not_go_together_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        Scenario(**options)
