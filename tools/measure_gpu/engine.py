"""The engine that is measured: vLLM in this process, as it comes, around a model of random weights."""

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

QWEN3 = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "vocab_size": 151936,
    "hidden_size": 2048,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 768,
    "intermediate_size": 6144,
    "norm_topk_prob": True,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "rope_theta": 1e6,
    "max_position_embeddings": 40960,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
"""Qwen/Qwen3-30B-A3B, config.json: device_model/specs/models/qwen3-30b-a3b.toml has most of it, with its sources; the
rest is as transformers' Qwen3MoeConfig has it by default, and rope_theta is from memory."""

BATCHED_TOKENS = 8192
SEQUENCES = 256
BF16_BYTES = 2
ROOM_BYTES = 6e9
"""What a GPU must hold beside the weights: activations, CUDA graphs, and a KV cache of at least one long request."""


class Settings(NamedTuple):
    """The share of the GPU's memory that vLLM may use, whether it compiles nothing, and the seed of weights and
    prompts."""

    memory_share: float
    eager: bool
    seed: int


class Engine(NamedTuple):
    """vLLM's engine, its model's configuration, and what requests are made of."""

    llm: Any
    config: Mapping[str, Any]
    settings: Settings
    random: np.random.Generator
    names: Iterator[int]

    def add(self, prompt: list[int], output_tokens: int) -> str:
        """Add a request that gets exactly so many tokens, sampled at temperature 1; return its name."""
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        sampling = SamplingParams(temperature=1.0, ignore_eos=True, max_tokens=output_tokens, detokenize=False)
        sampling.output_kind = RequestOutputKind.DELTA
        name = str(next(self.names))
        self.llm.llm_engine.add_request(name, {"prompt_token_ids": prompt}, sampling)
        return name

    def prompt(self, tokens: int) -> list[int]:
        """Return random tokens."""
        found: list[int] = self.random.integers(self.config["vocab_size"], size=tokens).tolist()
        return found

    def step(self) -> dict[str, list[int]]:
        """Run a step; return each request's new tokens. They are on the host, so that the GPU has computed them."""
        outputs = self.llm.llm_engine.step()
        return {one.request_id: list(one.outputs[0].token_ids) for one in outputs if one.outputs[0].token_ids}

    def end(self, names: list[str]) -> None:
        """Abort these requests, and run what of them is under way."""
        self.llm.llm_engine.abort_request(names)
        while self.llm.llm_engine.has_unfinished_requests():
            self.step()

    def dress(self, spread: float) -> None:
        """Have tokens choose experts with another spread of popularity."""
        from tools.measure_gpu.dressing import Dress, dress

        wanted = Dress(spread, self.config["num_experts_per_tok"], self.settings.seed)
        self.llm.apply_model(lambda model: dress(model, wanted))

    def distinct(self, tokens: list[int], batch: int) -> float | None:
        """Return how many experts of a layer each `batch` of these tokens in a row choose, on average, as the routers
        say in a pass of them all; None if they say nothing, as in a CUDA graph."""
        from tools.measure_gpu.dressing import watch

        noted: list[float] = []
        top_k = self.config["num_experts_per_tok"]
        hooks = self.llm.apply_model(lambda model: watch(model, top_k, batch, noted))[0]
        self.add(tokens, 1)
        self.end([])
        for hook in hooks:
            hook.remove()
        return sum(noted) / len(noted) if noted else None

    @property
    def room_tokens(self) -> int:
        """Tokens that the KV cache has room for."""
        cache = self.llm.llm_engine.vllm_config.cache_config
        return int(cache.num_gpu_blocks) * int(cache.block_size)


def weight_bytes(config: Mapping[str, Any]) -> float:
    """Return the bytes of a model's weights in BF16; norms don't count."""
    hidden, heads = config["hidden_size"], config["num_attention_heads"] + config["num_key_value_heads"]
    attention = 2 * hidden * heads * config["head_dim"]
    experts = config["num_experts"] * hidden * (3 * config["moe_intermediate_size"] + 1)
    embeddings = config["vocab_size"] * hidden * (1 if config["tie_word_embeddings"] else 2)
    return float(BF16_BYTES * (config["num_hidden_layers"] * (attention + experts) + embeddings))


def config_of(overrides: str) -> dict[str, Any]:
    """Return the model's configuration with what a JSON object overrides. A wrong one ends the program."""
    try:
        given = json.loads(overrides)
    except json.JSONDecodeError as error:
        raise SystemExit(f"--config is {overrides!r}; allowed is a JSON object: {error}.") from None
    if not isinstance(given, dict):
        raise SystemExit(f"--config is {overrides!r}; allowed is a JSON object.")
    if unknown := [name for name in given if name not in QWEN3]:
        raise SystemExit(f"--config: unknown key {unknown[0]!r}; allowed are {', '.join(QWEN3)}.")
    return {**QWEN3, **given}


def check_memory(config: Mapping[str, Any], share: float) -> None:
    """End the program if there is a GPU and it is too small."""
    import torch

    if not torch.cuda.is_available():
        return
    gpu = torch.cuda.get_device_properties(0)
    needed = weight_bytes(config) + ROOM_BYTES
    if gpu.total_memory * share < needed:
        raise SystemExit(
            f"{gpu.name} has {gpu.total_memory / 1e9:.0f} GB, of which {share:.0%} may be used; the weights and some "
            f"room take {needed / 1e9:.0f} GB. Take a larger GPU, or fewer layers: --config "
            "'{\"num_hidden_layers\": 24}'."
        )


@contextmanager
def started(config: Mapping[str, Any], spread: float, settings: Settings) -> Iterator[Engine]:
    """Start vLLM with a model of this configuration, dressed with this spread of popularity."""
    # One process, so that the model is at hand, and no network.
    os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_NO_USAGE_STATS="1", HF_HUB_OFFLINE="1")
    from vllm import LLM

    from tools.measure_gpu.dressing import FORMAT, Dress, DressedLoader

    DressedLoader.dress = Dress(spread, config["num_experts_per_tok"], settings.seed)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(config), encoding="utf-8")
        llm = LLM(
            model=folder,
            load_format=FORMAT,
            skip_tokenizer_init=True,
            dtype="bfloat16",
            enable_prefix_caching=False,
            max_num_batched_tokens=BATCHED_TOKENS,
            max_num_seqs=SEQUENCES,
            gpu_memory_utilization=settings.memory_share,
            enforce_eager=settings.eager,
        )
        yield Engine(llm, config, settings, np.random.default_rng(settings.seed), count())
