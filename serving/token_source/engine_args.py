"""vLLM's engine, as the token source and its front end at the edge configure it."""

from typing import TYPE_CHECKING

from serving.token_source.vllm_args import on_cpu, parse_flags

if TYPE_CHECKING:
    from vllm.engine.arg_utils import AsyncEngineArgs


def engine_args(flags: list[str]) -> "AsyncEngineArgs":
    """The flags as vLLM's engine takes them."""
    from vllm.engine.arg_utils import AsyncEngineArgs

    if on_cpu():
        from serving.token_source.cpu_kernels import register

        register()
    args = AsyncEngineArgs.from_cli_args(parse_flags(flags))
    args.async_scheduling = False
    return args
