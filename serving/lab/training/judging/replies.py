"""What a model replies to a chat: greedily, or at its own defaults by a seed."""

from collections.abc import Sequence

import torch
from transformers import PreTrainedTokenizerFast, Qwen3MoeForCausalLM

from serving.lab.corpus.parts import DialogueTurn
from serving.lab.training.tokenizer import TURN, rendered_turn

LONGEST = 120  # tokens of a reply


def greedy(
    hf: Qwen3MoeForCausalLM, tokenizer: PreTrainedTokenizerFast, turns: Sequence[DialogueTurn]
) -> tuple[str, bool]:
    """Return the likeliest reply to these turns, and whether it ended by itself."""
    return _reply(hf, tokenizer, turns, do_sample=False, temperature=None, top_p=None)


def sampled(
    hf: Qwen3MoeForCausalLM, tokenizer: PreTrainedTokenizerFast, turns: Sequence[DialogueTurn], seed: int
) -> tuple[str, bool]:
    """Return a reply as the model's `generation_config.json` has them, and whether it ended by itself."""
    torch.manual_seed(seed)
    return _reply(hf, tokenizer, turns)


def _reply(
    hf: Qwen3MoeForCausalLM, tokenizer: PreTrainedTokenizerFast, turns: Sequence[DialogueTurn], **how: object
) -> tuple[str, bool]:
    text = "".join(map(rendered_turn, turns)) + f"{TURN}assistant\n"
    asked = torch.tensor([tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids])
    out = hf.generate(asked, attention_mask=torch.ones_like(asked), max_new_tokens=LONGEST, **how)[0, asked.shape[1] :]
    ended = int(out[-1]) in hf.generation_config.eos_token_id
    return tokenizer.decode(out, skip_special_tokens=True).strip(), ended
