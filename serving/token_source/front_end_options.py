"""Options of vLLM's front end that a user gives: those that its server knows, and foreserve or an engine has not."""

from argparse import Namespace
from dataclasses import fields
from typing import Any, NoReturn

from device_model.specs.nearest_name import nearest
from serving.scenario.scenario import Scenario, ScenarioError
from serving.token_source.vllm_args import OF_THE_CACHE, prepare_environment, split_options, vllm_flags

KEY = "vllm_options"
OF_THE_ENGINE = OF_THE_CACHE | {
    *("served_model_name", "reasoning_parser", "max_logprobs", "generation_config", "override_generation_config")
}
"""Fields of vLLM's engine arguments that its front end goes by, or emulated devices."""
OWN = {
    "host": "--host",
    "port": "--http-port",
    "grpc_port": "--grpc-port",
    "api_key": "--api-key-file",
    "ssl_keyfile": "--tls-key",
    "ssl_certfile": "--tls-cert",
    "max_model_len": "--max-model-len",
    "max_num_seqs": "--max-num-seqs",
    "max_num_batched_tokens": "--max-num-batched-tokens",
    "model": "--token-model",
}
"""Fields of vLLM's arguments in whose place foreserve has options of its own."""
SERVERS = (
    "ssl_",
    "uvicorn_",
    "h11_",
    "disable_uvicorn_",
    "disable_access_log_",
    "enable_ssl_",
    "dp_",
    "data_parallel_",
)
"""Beginnings of fields for a process, a socket or ranks that foreserve's own server has in its own way."""
WITHOUT_USE = frozenset(
    {
        *("uds", "lora_modules", "enable_flash_late_interaction", "enable_log_outputs", "max_log_len"),
        *("tool_parser_plugin", "tokens_only"),
    }
)
"""Fields for what is not emulated (adapters, pooling, a log of prompts) or read by vLLM's launcher alone."""


def check_front_end_options(scenario: Scenario) -> None:
    """Raise `ScenarioError` for an option that is not one of vLLM's front end, or that vLLM refuses."""
    prepare_environment(scenario.token_model)
    from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
    from vllm.entrypoints.launchers.launcher import validate_api_server_args
    from vllm.exceptions import VLLMClientError
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser: Any = make_arg_parser(FlexibleArgumentParser())
    parser.error = _refuse
    known = {option: action.dest for action in parser._actions for option in action.option_strings}
    for name, _ in split_options(scenario.vllm_options):
        _check_name(name, known)
    args: Namespace = parser.parse_args(vllm_flags(scenario, scenario.max_model_len))
    if args.model_tag is not None:
        raise ScenarioError(f"`{KEY}` has {args.model_tag!r}, which is no option: options begin with --.", KEY)
    try:
        validate_parsed_serve_args(args)
        validate_api_server_args(args)
    except (VLLMClientError, TypeError, ValueError, KeyError, OSError) as error:
        _refuse(error.args[0] if isinstance(error, KeyError) else str(error))
    _check_reasoning_parser(args.reasoning_parser, scenario.token_model)
    _check_cache(scenario, args.kv_events_config is not None and args.kv_events_config.enable_kv_cache_events)


def _check_reasoning_parser(name: str, token_model: str) -> None:
    """Raise `ScenarioError` for a parser of thoughts that wants tokens which the token model lacks: each request would
    fail by it."""
    if not name:
        return
    from vllm.reasoning import ReasoningParserManager
    from vllm.tokenizers import get_tokenizer

    try:
        ReasoningParserManager.get_reasoning_parser(name)(get_tokenizer(token_model))
    except (RuntimeError, ValueError) as error:
        why = f"as vLLM says: {str(error).rstrip('!.')}."
        sentence = f"`{KEY}` has --reasoning-parser {name}, which does not fit the token model's tokenizer, {why}"
        raise ScenarioError(sentence, KEY) from error


def _check_cache(scenario: Scenario, has_events: bool) -> None:
    """Raise `ScenarioError` for an option of the prefix cache that would change nothing."""
    given = {name for name, _ in split_options(scenario.vllm_options)}
    for field in sorted(OF_THE_CACHE):
        if (option := f"--{field.replace('_', '-')}") in given and not has_events:
            without = "without KV events, which --kv-events-config '{\"enable_kv_cache_events\": true}' turns on"
            raise ScenarioError(f"`{KEY}` has {option}, which changes nothing {without}.", KEY)
    if has_events and not scenario.prefix_caching:
        raise ScenarioError(f"`{KEY}` asks for KV events, and without `prefix_caching` there are none.", KEY)


def _check_name(option: str, known: dict[str, str]) -> None:
    if (field := known.get(option)) is None:
        near = nearest(option, known)
        hint = f": {near[0]} is the nearest" if near else ""
        raise ScenarioError(f"`{KEY}` has {option}, which is no option of vLLM's server{hint}.", KEY)
    if field in OWN:
        own = OWN[field]
        raise ScenarioError(f"`{KEY}` has {option}, which is foreserve's to say: give {own} (before the --).", KEY)
    if field not in front_end_fields():
        raise ScenarioError(
            f"`{KEY}` has {option}, which concerns vLLM's engine or server, in whose place foreserve has its own; "
            "allowed are options of its front end.",
            KEY,
        )


def front_end_fields() -> set[str]:
    """Return the fields of vLLM's arguments that a user may give: those of its front end."""
    from vllm.entrypoints.launchers.cli_args import FrontendArgs

    named = {field.name for field in fields(FrontendArgs)} | OF_THE_ENGINE  # type: ignore[arg-type]
    return {name for name in named if not name.startswith(SERVERS)} - WITHOUT_USE - OWN.keys()


def _refuse(why: str) -> NoReturn:
    raise ScenarioError(f"`{KEY}`, as vLLM says: {why.removeprefix('Error: ').rstrip('.')}.", KEY)
