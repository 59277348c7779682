"""Are options of vLLM's front end taken, and all others refused by name?"""

import pytest

from serving.cli.main import parse
from serving.scenario.command_line import options_of
from serving.scenario.scenario import Scenario, ScenarioError
from serving.token_source.front_end_options import check_front_end_options
from serving.token_source.vllm_args import parse_flags, served_name, source_flags, vllm_flags


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--tensor-parallel-size=2"], ["--tensor-parallel-size", "engine"]),
        (["-tp", "2"], ["-tp", "engine"]),
        (["--root-path=/p", "-q=fp8"], ["-q", "engine"]),
        (["-O3"], ["-O3", "no option of vLLM's"]),
        (["-h"], ["-h", "engine or server"]),
        (["--uvicorn-log-level=debug"], ["--uvicorn-log-level", "engine or server"]),
        (["--port", "9"], ["--port", "give --http-port"]),
        (["--max_model_len=9"], ["--max-model-len", "before the --"]),
        (["--enable-auto-tol"], ["no option of vLLM's", "--enable-auto-tool-choice is the nearest"]),
        (["--tool-call-parser"], ["expected one argument"]),
        (["--tool-call-parser=nonsense"], ["invalid tool call parser", "hermes"]),
        (["--chat-template=/nope.jinja"], ["/nope.jinja", "doesn't exist"]),
        (["stray"], ["'stray'", "options begin with --"]),
        (["--kv-events-config", '{"publisher": "zmq"}'], ["--kv-events-config", "enable_kv_cache_events", "turns on"]),
        (["--prefix-caching-hash-algo=sha256_cbor"], ["--prefix-caching-hash-algo", "changes nothing without"]),
        (["--kv-events-config", '{"nonsense": 1}'], ["nonsense", "Unexpected keyword"]),
    ],
)
def test_what_is_no_option_of_the_front_end_is_refused_by_name(options: list[str], said: list[str]) -> None:
    with pytest.raises(ScenarioError) as refused:
        check_front_end_options(Scenario(vllm_options=tuple(options)))
    assert all(word in str(refused.value) for word in ["`vllm_options`", *said]), str(refused.value)


def test_a_number_below_0_is_a_value() -> None:
    check_front_end_options(Scenario(vllm_options=("--max-logprobs", "-1")))


def test_a_users_options_take_the_place_of_ours() -> None:
    options = ("--served-model-name", "a", "b", "--tool-call-parser=qwen3_coder", "--root-path=/p")
    check_front_end_options(Scenario(vllm_options=options))
    args = parse_flags(vllm_flags(Scenario(vllm_options=options), 4096))
    assert args.served_model_name == ["a", "b"] and args.root_path == "/p"
    assert args.tool_call_parser == "qwen3_coder" and args.enable_auto_tool_choice


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ((), "qwen3-30b-a3b"),
        (("--root-path=/p",), "qwen3-30b-a3b"),
        (("--served-model-name", "a", "b", "--root-path=/p"), "a"),
        (("--served_model_name=a", "--served-model-name=c"), "c"),
    ],
)
def test_clients_call_the_model_by_the_first_name_that_it_is_served_by(options: tuple[str, ...], name: str) -> None:
    scenario = Scenario(vllm_options=options)
    assert served_name(scenario) == name
    said = parse_flags(vllm_flags(scenario, 4096)).served_model_name
    assert name == (said if isinstance(said, str) else said[0])


def test_a_parser_of_thoughts_fits_the_token_models_tokenizer() -> None:
    check_front_end_options(Scenario(vllm_options=("--reasoning-parser=qwen3",)))
    with pytest.raises(ScenarioError, match=r"deepseek_r1, which does not fit .* could not locate"):
        check_front_end_options(Scenario(vllm_options=("--reasoning-parser", "deepseek_r1")))


def test_what_stands_after_two_dashes_is_for_vllm() -> None:
    args = parse(["serve", "--devices", "2", "--vllm-option=--root-path=/p", "--", "--served-model-name", "x"])
    assert args.devices == 2 and args.vllm_options == ["--root-path=/p", "--served-model-name", "x"]
    scenario = Scenario(vllm_options=tuple(args.vllm_options))
    assert parse(["serve", *options_of(scenario)]).vllm_options == list(scenario.vllm_options)


def test_a_command_without_a_front_end_takes_nothing_after_them(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["systems", "--", "--root-path=/p"])
    assert "takes nothing after --" in capsys.readouterr().err


def test_what_is_for_the_prefix_caches_of_devices_is_not_for_that_of_a_token_source() -> None:
    events = '{"enable_kv_cache_events": true}'
    for said in (("--kv-events-config", events), (f"--kv_events_config={events}",), ("--kv-events-config.topic", "x")):
        options = ("--root-path=/p", *said, "--prefix-caching-hash-algo=sha256_cbor", "--served-model-name", "a", "b")
        scenario = Scenario(vllm_options=options)
        assert [flag for flag in source_flags(scenario, 512) if "kv" in flag or "hash" in flag] == []
        assert parse_flags(source_flags(scenario, 512)).served_model_name == ["a", "b"]
        assert parse_flags(vllm_flags(scenario, 512)).kv_events_config is not None


def test_events_of_a_cache_that_is_off_are_refused() -> None:
    options = ("--kv-events-config", '{"enable_kv_cache_events": true}')
    with pytest.raises(ScenarioError, match="without `prefix_caching` there are none"):
        check_front_end_options(Scenario(vllm_options=options, prefix_caching=False))
    check_front_end_options(Scenario(vllm_options=options))
