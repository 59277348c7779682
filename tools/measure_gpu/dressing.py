"""Dresses random weights so that tokens choose among the experts by popularity, in a forward pass like any other.

The first number of each embedding is a constant, the others are normal noise, and all else adds so little to the
residual stream that in each layer it still is the token's embedding. So a router's first weights are the leanings of
its experts, the others noise of the right size: nothing is computed that the real model doesn't compute.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from vllm.model_executor.model_loader import DummyModelLoader, register_model_loader

from tools.measure_gpu.popularity import leanings

FORMAT = "dressed"
CONSTANT = 8.0


class Dress(NamedTuple):
    """The spread of popularity (0: even), and what leanings and noise are drawn from."""

    spread: float
    top_k: int
    seed: int = 0


@register_model_loader(FORMAT)
class DressedLoader(DummyModelLoader):
    """Draws weights and dresses them as long as they lie as the model has them; vLLM may then pack them."""

    dress = Dress(0.0, 1)

    def load_weights(self, model: torch.nn.Module, model_config: Any) -> None:
        """Draw all weights, vLLM's way, and then those that choose."""
        super().load_weights(model, model_config)
        dress(model, self.dress)


@torch.no_grad()
def dress(model: torch.nn.Module, wanted: Dress) -> None:
    """Set norms, embeddings and routers. End the program if vLLM has packed the routers' weights away."""
    noise: torch.Generator | None = None
    for name, weights in model.named_parameters():
        noise = noise or torch.Generator(weights.device).manual_seed(wanted.seed)
        if name.endswith("norm.weight"):
            weights.fill_(1.0)
        elif name.endswith("embed_tokens.weight"):
            weights.normal_(generator=noise)
            weights[:, 0] = CONSTANT
    random = np.random.default_rng(wanted.seed)
    for gate in gates(model):
        if not gate.weight.numel():
            raise SystemExit("This build of vLLM has packed the routers: measure --popular and --even one at a time.")
        _lean(gate.weight, leanings(gate.weight.shape[0], wanted.top_k, wanted.spread, random), noise)


def gates(model: torch.nn.Module) -> Iterator[Any]:
    """Yield the routers, layer by layer."""
    # A module that holds experts may hold the same router under a second name: `named_modules` has each once.
    found = [module for name, module in model.named_modules() if name.endswith(".gate")]
    if not found:
        raise SystemExit("The model has no routers named `gate`; allowed are those of the class Qwen3MoeForCausalLM.")
    yield from found


def _lean(weights: torch.Tensor, to: "np.ndarray[Any, Any]", noise: torch.Generator | None) -> None:
    """Set a router's weights: what it says of an expert is the leaning to it and noise of variance 1."""
    hidden = weights.shape[1]
    # By which the norm before a router divides an embedding.
    rms = ((CONSTANT**2 + hidden - 1) / hidden) ** 0.5
    weights.normal_(std=rms / (hidden - 1) ** 0.5, generator=noise)
    weights[:, 0] = torch.as_tensor(to * rms / CONSTANT, dtype=weights.dtype, device=weights.device)


def watch(model: torch.nn.Module, top_k: int, batch: int, distinct: list[float]) -> list[Any]:
    """Have the routers note how many experts each `batch` tokens in a row choose, on average; return what to `remove`
    so that they no longer do."""

    def note(_: torch.nn.Module, __: Any, output: Any) -> None:
        logits = (output[0] if isinstance(output, tuple) else output).float()
        chosen = logits.topk(top_k, dim=-1).indices.cpu().numpy()
        groups = [chosen[first : first + batch] for first in range(0, len(chosen) - batch + 1, batch)]
        distinct.append(float(np.mean([len(np.unique(group)) for group in groups])))

    return [gate.register_forward_hook(note) for gate in gates(model)]
