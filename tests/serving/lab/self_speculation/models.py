"""Models that the tests of self-speculation share: random, small, and as transformers makes them."""

import torch
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

from serving.lab.self_speculation.weights import ModelWeights, of_tensors


def config(**changes):
    """A Qwen3-MoE that is quick to run."""
    plain = {
        "vocab_size": 96,
        "hidden_size": 64,
        "intermediate_size": 64,
        "moe_intermediate_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 3,
        "num_key_value_heads": 1,
        "head_dim": 32,
        "num_experts": 16,
        "num_experts_per_tok": 4,
        "norm_topk_prob": True,
        "tie_word_embeddings": True,
        "eos_token_id": None,
        "bos_token_id": None,
        "pad_token_id": 0,
        "initializer_range": 0.2,
    }
    return Qwen3MoeConfig(**(plain | changes))


def reference(seed=0, **changes):
    """transformers' own model, in float64."""
    torch.manual_seed(seed)
    model = Qwen3MoeForCausalLM(config(**changes)).double().eval()
    model.set_experts_implementation("eager")  # the grouped kernel has no float64
    return model


def weights_of(model) -> ModelWeights:
    tensors = {name.removeprefix("model."): tensor.detach() for name, tensor in model.state_dict().items()}
    return of_tensors(model.config.to_dict(), tensors)


def random_weights(seed=0, **changes) -> ModelWeights:
    return weights_of(reference(seed, **changes))


def prompts(count, vocabulary=96, seed=0):
    """Prompts of different lengths."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(3, 12, (count,), generator=generator).tolist()
    return [torch.randint(1, vocabulary, (length,), generator=generator).tolist() for length in lengths]
