"""Makes the lighter of the bundled token models: a tiny Qwen3-MoE with a tokenizer of its own, untrained, seeded.

    python tools/tiny_model.py

Its text is noise with word shapes, for loads whose tokens nobody reads: less work for vLLM than those of a trained one.
"""

import ast
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3MoeConfig, Qwen3MoeForCausalLM

TARGET = Path(__file__).parent.parent / "serving" / "bundled" / "foreserve-tiny"
CONTEXT = 32768
VOCABULARY = 2048
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def docstrings() -> Iterator[str]:
    """English that every machine has: the docstrings of Python's standard library, in a fixed order."""
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                yield ast.get_docstring(node) or ""


def save_tokenizer() -> None:
    """Write the tokenizer: byte-level, so that no text is beyond it."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=SPECIAL, initial_alphabet=alphabet)
    bpe.train_from_iterator(docstrings(), trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token=SPECIAL[2], pad_token=SPECIAL[0], model_max_length=CONTEXT
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.save_pretrained(TARGET)


def save_model() -> None:
    """Write the configuration and weights, untrained but seeded."""
    torch.manual_seed(0)
    config = Qwen3MoeConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=128,
        moe_intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        num_experts=32,
        num_experts_per_tok=4,
        norm_topk_prob=True,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        eos_token_id=SPECIAL.index("<|im_end|>"),
        bos_token_id=None,
        pad_token_id=0,
    )
    Qwen3MoeForCausalLM(config).to(torch.bfloat16).save_pretrained(TARGET)


if __name__ == "__main__":
    save_tokenizer()
    save_model()
