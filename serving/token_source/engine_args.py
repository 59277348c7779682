"""The engine arguments of vLLM that the token source and the edge's front end share."""

from typing import TYPE_CHECKING

from serving.scenario.scenario import ScenarioError
from serving.token_source.vllm_args import on_cpu, parse_flags

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.engine.arg_utils import AsyncEngineArgs


def engine_args(flags: list[str]) -> "AsyncEngineArgs":
    """Return the flags as arguments of vLLM's engine; on a CPU, offer it our kernels first."""
    from vllm.engine.arg_utils import AsyncEngineArgs

    if on_cpu():
        from serving.token_source.worker.cpu_kernels import register

        register()
    args = AsyncEngineArgs.from_cli_args(parse_flags(flags))
    args.async_scheduling = False
    return args


def engine_config(flags: list[str]) -> "VllmConfig":
    """Return the flags as vLLM's configuration. Raise ScenarioError if vLLM cannot read the token model."""
    from pydantic import ValidationError

    args = engine_args(flags)
    try:
        return args.create_engine_config()
    except (OSError, ValueError) as error:
        why = "; ".join(each["msg"] for each in error.errors()) if isinstance(error, ValidationError) else str(error)
        raise ScenarioError(
            f"`token_model` is {args.model!r}, with which vLLM cannot start: {why}", "token_model"
        ) from error
