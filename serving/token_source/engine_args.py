"""The engine arguments of vLLM that the token source and the edge's front end share."""

from typing import TYPE_CHECKING

from serving.token_source.vllm_args import on_cpu, parse_flags

if TYPE_CHECKING:
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
