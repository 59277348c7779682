"""vLLM's settings: one list of its own command-line flags, for its server and for the token source."""

import json
import logging
import os
import re
import warnings
from argparse import Namespace
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from serving.scenario.scenario import Scenario, ScenarioError, is_bundled
from serving.token_model.config_file import hub_found
from serving.token_source.cpu_type import cpu_dtype

CPU_KERNELS = "foreserve_cpu"
"""The name under which vLLM knows the kernels of `cpu_kernels`."""
WORKER = "serving.token_source.worker.sampling_worker.SamplingWorker"
ROUTED_WORKER = "serving.token_source.worker.routed_worker.RoutedWorker"
"""The worker classes on a CPU, the second one with routes."""
GPU_WORKER = "serving.token_source.worker.gpu_worker.GpuWorker"

BUNDLED_ON_GPU = (
    f"--kv-cache-memory-bytes={2**30}",
    '--compilation-config={"mode": 0, "cudagraph_mode": "FULL_DECODE_ONLY"}',
)
"""How a bundled model runs on a GPU. By default it would take nine tenths of the memory for 12 MB of weights: here a
million tokens of KV cache. CUDA graphs halve what a token costs the host; compiling as well makes it no cheaper, and
the start later."""

OF_THE_CACHE = frozenset({"kv_events_config", "prefix_caching_hash_algo"})
"""Fields of vLLM's engine arguments for its prefix cache, in whose place the emulated devices' stand."""

SECOND_RUNNER = "VLLM_USE_V2_MODEL_RUNNER"
"""The environment variable that has vLLM use the second of its model runners (1) or the first one (0)."""

OPTION = re.compile(r"--|-[A-Za-z]")
"""How options begin, the short ones of vLLM's engine (-tp, -O3) too; a number below 0 is a value."""

BUNDLED_TOOLS = ("--enable-auto-tool-choice", "--tool-call-parser=hermes")
"""How calls of tools are written, by the bundled models' chat template."""


def prepare_environment(token_model: str) -> None:
    """Set vLLM's environment variables, but for those that the user has set. Call this before vLLM is imported."""
    settings = {
        # A model in a folder needs nothing from the hub; one that is named may have to come from there.
        "HF_HUB_OFFLINE": "0" if not Path(token_model).is_dir() and hub_found() else "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_LOGGING_LEVEL": "ERROR",
        # Torch would say on which NUMA nodes it takes memory.
        "TORCH_CPP_LOG_LEVEL": "ERROR",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        # The token source must not claim cores for itself: the devices' deadlines come first.
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        # Of a small model four threads make 1.4 times the tokens of one, and take twice the processor time for each:
        # where there are more cores, more sources serve better.
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        # oneDNN keeps a kernel for each length of prompt it has seen, 1,024 of them by default: some 700 MB after 8,000
        # prompts, and no prompt sooner for it.
        "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "128",
        # The gRPC service would send prompts as long as the context to tune kernels: on a device they are load.
        "SMG_VLLM_SERVICER_WARMUP": "off",
        # Else the first request for log probabilities keeps all others waiting for a C++ compiler, and the second too.
        "TORCHDYNAMO_DISABLE": "1" if on_cpu() else "0",
    }
    if not on_cpu():
        # vLLM's second model runner, which it prefers on GPUs, takes no logits processor such as `forced_replay`.
        settings[SECOND_RUNNER] = "0"
        # Its kernels for sampling would be compiled at start, for a sampler in whose place ours stands.
        settings["VLLM_USE_FLASHINFER_SAMPLER"] = "0"
    if is_bundled(token_model):
        # Else calls are guided by tags, whose JSON may have whitespace: a small model goes on with that to its limit.
        settings["VLLM_ENFORCE_STRICT_TOOL_CALLING"] = "0"
    for name, value in settings.items():
        os.environ.setdefault(name, value)
    hush()


def provide_cache(folder: Path) -> None:
    """Have vLLM keep its cache in a folder, where it could not in the home folder: it prints its stack otherwise. Torch
    keeps what it compiles there, where that is nothing."""
    if on_cpu():
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(folder / "inductor"))
    try:
        Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser(), "vllm").mkdir(
            parents=True, exist_ok=True
        )
    except OSError:
        os.environ.setdefault("VLLM_CACHE_ROOT", str(folder / "vllm"))


def hush() -> None:
    """Silence what only vLLM's developers could mend: that there is no Triton, which the CPU build does without, and
    that vLLM looks through names of torch's that are deprecated."""
    logging.getLogger("torch._library.triton").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"vllm\.")


def on_cpu() -> bool:
    """Tell whether the CPU build of vLLM is installed."""
    try:
        return bool(version("vllm-cpu"))
    except PackageNotFoundError:
        return False


def split_options(options: tuple[str, ...]) -> list[tuple[str, tuple[str, ...]]]:
    """Split options: each its name, as vLLM writes it, with the words that say it."""
    split: list[tuple[str, tuple[str, ...]]] = []
    for word in options:
        if OPTION.match(word):
            name = word.partition("=")[0].partition(".")[0].replace("_", "-")
            split.append((name, (word,)))
        elif split:
            split[-1] = (split[-1][0], (*split[-1][1], word))
    return split


def engine_options(options: tuple[str, ...]) -> tuple[str, ...]:
    """Return options without those that are for the emulated devices' prefix caches: vLLM's own is not what clients
    see."""
    kept = (words for name, words in split_options(options) if name[2:].replace("-", "_") not in OF_THE_CACHE)
    return tuple(word for words in kept for word in words)


def source_flags(scenario: Scenario, max_model_len: int) -> list[str]:
    """Return vLLM's flags for a scenario's token sources."""
    return vllm_flags(replace(scenario, vllm_options=engine_options(scenario.vllm_options)), max_model_len)


def vllm_flags(scenario: Scenario, max_model_len: int) -> list[str]:
    """Return vLLM's flags for a scenario; `max_model_len`: tokens that devices and scenario can both hold."""
    flags = [
        f"--model={scenario.token_model}",
        f"--served-model-name={scenario.model}",
        f"--max-model-len={max_model_len}",
        f"--max-num-seqs={scenario.max_num_seqs * len(scenario.members)}",
        f"--max-num-queued-reqs={scenario.max_queue}",
        f"--host={scenario.host}",
        f"--port={scenario.http_port}",
        "--logits-processors=serving.token_source.forced_replay:Replay",
        "--disable-log-stats",
        "--enable-prompt-tokens-details",
        "--disable-uvicorn-access-log",
        "--uvicorn-log-level=warning",
    ]
    if is_bundled(scenario.token_model):
        flags += BUNDLED_TOOLS
    routed = has_routes(scenario, on_cpu())
    flags += [
        "--no-enable-prefix-caching",
        "--no-enable-chunked-prefill",
        f"--max-num-batched-tokens={max(max_model_len, 2048)}",
    ]
    if not on_cpu():
        for_gpu = BUNDLED_ON_GPU if is_bundled(scenario.token_model) else ()
        return beside([*flags, f"--worker-cls={GPU_WORKER}", *for_gpu], scenario.vllm_options)
    # In 0.32.0 on CPUs a seeded request whose prefill is cut into chunks ends in "CPU Generator does not use offset";
    # a tiny prefix is computed sooner than found in a cache. Attention reads keys by 32 tokens: of larger blocks each
    # row of them is elsewhere in memory.
    flags += [
        f"--worker-cls={ROUTED_WORKER if routed else WORKER}",
        "--enforce-eager",
        f"--dtype={cpu_dtype()}",
        "--block-size=32",
        "--ir-op-priority=" + json.dumps({"rms_norm": [CPU_KERNELS], "fused_add_rms_norm": [CPU_KERNELS]}),
    ]
    return beside(flags, scenario.vllm_options)


def has_routes(scenario: Scenario, cpu: bool) -> bool:
    """Return whether a scenario's devices follow the routes of the token model. Raise ScenarioError if it is on a GPU:
    vLLM tells routes there by its second model runner only, which can't repeat the tokens of a source that died."""
    traced = scenario.residency == "trace"
    if traced and not cpu:
        raise ScenarioError(
            "`residency` is 'trace', which needs the token model on a CPU, and vLLM here is its GPU build; allowed is "
            "'analytic', or a study, which takes routes that were recorded.",
            "residency",
        )
    return traced


def beside(flags: list[str], options: tuple[str, ...]) -> list[str]:
    """Return flags without those in whose place a user has options of his own, and these."""
    said = {option.partition("=")[0].replace("_", "-") for option in options if option.startswith("--")}
    return [flag for flag in flags if flag.partition("=")[0] not in said] + list(options)


def served_name(scenario: Scenario) -> str:
    """Return the name that clients call the model by: the first of those that a user has given vLLM's front end, or the
    scenario's."""
    given = [words for name, words in split_options(scenario.vllm_options) if name == "--served-model-name"]
    if not given:
        return scenario.model
    _, said, name = given[-1][0].partition("=")
    return name if said else given[-1][1]


def parse_flags(flags: list[str]) -> Namespace:
    """Return the flags as arguments of vLLM's server."""
    from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser: Any = make_arg_parser(FlexibleArgumentParser())
    args: Namespace = parser.parse_args(flags)
    validate_parsed_serve_args(args)
    return args
