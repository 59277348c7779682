"""Preloaded modules: the imports of token sources, for the process that they are forked from, without Ray."""

from importlib import import_module

from serving.process.optional_imports import UNUSED, without_packages

MODULES = (
    "serving.token_source.shared_imports",
    "serving.token_source.worker.sampling_worker",
    "serving.token_source.rendezvous",
    "serving.token_source.vllm_source",
)

with without_packages("ray", *UNUSED):
    for _name in MODULES:
        import_module(_name)
