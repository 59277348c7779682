"""Shared imports: what both edges and token sources need of vLLM, for the process that all of them are forked from.

Not Ray, without which vLLM does: it reads its settings when it is imported, and each fork has its own.
"""

from importlib import import_module

from serving.process.optional_imports import UNUSED, without_packages
from serving.token_source.vllm_args import hush

hush()
with without_packages("ray", *UNUSED):
    import_module("vllm.entrypoints.launchers.cli_args")
