"""Tools and JSON: how many calls and objects are exactly what was asked for, in chats that training never saw."""

import json
from dataclasses import dataclass
from random import Random

from transformers import PreTrainedTokenizerFast, Qwen3MoeForCausalLM

from serving.lab.corpus.agents.structured import structured
from serving.lab.corpus.agents.tool_calls import tool_chat
from serving.lab.corpus.corpus import SPLITS, dialogue
from serving.lab.corpus.parts import Document, TextDraw
from serving.lab.training.judging.replies import greedy
from serving.topics.names import OTHER

COUNT = 40
CALL = "<tool_call>"


@dataclass(frozen=True, slots=True)
class AgentResult:
    """Of so many chats each: calls of the right tool, calls that are right in all, answers that are JSON, and those
    that are exactly what was asked for."""

    asked: int
    right_tool: int
    right_call: int
    parsed: int
    right_json: int


def _chats(kind: str) -> list[Document]:
    """Draw chats of a kind, the first reply of each being a call or JSON."""
    found: list[Document] = []
    for seed in range(10_000):
        draw = TextDraw(Random(f"judged/{kind}/{seed}"))
        if kind == "tools":
            chat = tool_chat(draw, dialogue(OTHER, 2 * seed + SPLITS["held-out"]))
            if not _expected(chat).startswith(CALL):
                continue
        else:
            chat = structured(draw)
        found.append(chat)
        if len(found) == COUNT:
            break
    return found


def _expected(chat: Document) -> str:
    return next(turn.content for turn in chat.turns if turn.role == "assistant")


def _tool(call: str) -> object:
    return parsed(call.removeprefix(CALL).removesuffix("</tool_call>"))


def parsed(text: str) -> object:
    """Return what a text says in JSON; None if it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def measure(hf: Qwen3MoeForCausalLM, tokenizer: PreTrainedTokenizerFast) -> AgentResult:
    """Ask for calls and for JSON, greedily."""
    pairs: dict[str, list[tuple[str, str]]] = {}
    for kind in ("tools", "json"):
        pairs[kind] = []
        for chat in _chats(kind):
            at = [turn.role for turn in chat.turns].index("assistant")
            pairs[kind].append((_expected(chat), greedy(hf, tokenizer, chat.turns[:at])[0]))
    calls = [(_tool(wanted), _tool(reply)) for wanted, reply in pairs["tools"]]
    objects = [(parsed(wanted), parsed(reply)) for wanted, reply in pairs["json"]]
    return AgentResult(
        COUNT,
        sum(
            isinstance(got, dict) and isinstance(want, dict) and got.get("name") == want["name"] for want, got in calls
        ),
        sum(got == want for want, got in calls),
        sum(got is not None for _, got in objects),
        sum(got == want for want, got in objects),
    )
