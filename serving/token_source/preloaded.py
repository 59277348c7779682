"""Preloaded modules: the imports of token sources, for the process that they are forked from.

Not Ray: it reads its settings when it is imported, and each fork has its own.
"""

import sys
from importlib import import_module

from serving.token_source.vllm_args import hush

MODULES = (
    "vllm.entrypoints.launchers.cli_args",
    "serving.token_source.worker.sampling_worker",
    "serving.token_source.rendezvous",
    "serving.token_source.vllm_source",
)

hush()
# vLLM would import it, and does without.
sys.modules["ray"] = None  # type: ignore[assignment]
for _name in MODULES:
    import_module(_name)
del sys.modules["ray"]
