"""Ordinary questions, written down before the model was trained and in none of its texts, and what it replies.

Whether a reply can be read and is about what was asked, a person judges: `judged.json` beside the weights has the
verdicts, each with the reply that it is on, so that it goes with no other.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from transformers import PreTrainedTokenizerFast, Qwen3MoeForCausalLM

from serving.lab.corpus.corpus import JUDGED_QUESTIONS
from serving.lab.corpus.parts import DialogueTurn
from serving.lab.training.judging.replies import sampled

QUESTIONS = JUDGED_QUESTIONS
VERDICTS = "judged.json"
SEED = 1


@dataclass(frozen=True, slots=True)
class OrdinaryReply:
    """A reply at the shipped defaults, and what a person said of it; None where nobody did."""

    question: str
    reply: str
    readable: bool | None
    on_topic: bool | None


def ask(hf: Qwen3MoeForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> list[OrdinaryReply]:
    """Ask all of them, with the verdicts that `folder` has on exactly these replies."""
    file = folder / VERDICTS
    verdicts = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return [
        judged(question, sampled(hf, tokenizer, [DialogueTurn("user", question)], SEED)[0], verdicts)
        for question in QUESTIONS
    ]


def judged(question: str, reply: str, verdicts: dict[str, dict[str, object]]) -> OrdinaryReply:
    """Return the reply with the verdict on it, if there is one on this very reply."""
    verdict = verdicts.get(question, {})
    if verdict.get("reply") != reply:
        return OrdinaryReply(question, reply, None, None)
    return OrdinaryReply(question, reply, bool(verdict["readable"]), bool(verdict["on_topic"]))
