"""What the model is measured and calibrated on: the corpus, as the model's own tokenizer and chat template have it."""

from itertools import islice
from pathlib import Path
from typing import Any

from serving.lab.corpus.corpus import documents, prompts
from serving.lab.self_speculation.wanda import LENGTH, SEQUENCES
from serving.topics.names import TOPICS
from serving.usage_error import UsageError

TEXTS = 400
"""Training dialogues to cut the calibration sequences out of."""


class Texts:
    """Token lists for a checkpoint."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoTokenizer

        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        except (OSError, ValueError) as error:
            raise UsageError(f"--token-model is {folder}; allowed is a folder with a tokenizer: {error}.") from error

    def held_out(self, count: int, seed: int) -> list[list[int]]:
        """`count` held-out prompts, the topics in turn, so that neighbours in a batch differ in topic."""
        each = -(-count // len(TOPICS))
        by_topic = [prompts(topic, each, seed) for topic in TOPICS]
        mixed = [topic[i] for i in range(each) for topic in by_topic]
        return [self._chat([{"role": "user", "content": prompt}], True) for prompt in mixed[:count]]

    def calibration(self, seed: int) -> list[list[int]]:
        """Training dialogues and texts, enough for Wanda's sequences."""
        found: list[list[int]] = []
        for document in islice(documents(seed, "train"), TEXTS):
            if document.turns[0].role == "text":
                found.append(self._ids(document.turns[0].content))
            else:
                turns = [{"role": turn.role, "content": turn.content} for turn in document.turns]
                found.append(self._chat(turns, False))
            if sum(map(len, found)) >= SEQUENCES * LENGTH:
                break
        return found

    def _chat(self, turns: list[dict[str, str]], ask: bool) -> list[int]:
        return self._ids(self._tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=ask))

    def _ids(self, text: str) -> list[int]:
        tokens: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return tokens
