"""The corpus: dialogues by topic and seed, an endless mixed stream of them, and another one of long conversations.

Even seeds are for training, odd ones held out. No text of a first question is asked in both, so a held-out dialogue
pairs a wording and a subject that training never does; only `other` has too few greetings for that. A dialogue depends
on its topic and seed alone, on no other dialogue and on no machine.
"""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from zlib import crc32

from serving.lab.corpus import cs, humanities, legal, logic, maths, other, science
from serving.lab.corpus.agents.structured import in_words, structured
from serving.lab.corpus.agents.tool_calls import tool_chat
from serving.lab.corpus.asked import asked as asked_of_anything
from serving.lab.corpus.conversations import conversation
from serving.lab.corpus.grammar import capital
from serving.lab.corpus.knowledge import PHRASING, knowledge
from serving.lab.corpus.parts import DialogueTurn, Document, Exchange, TextDraw
from serving.lab.corpus.texts.mixed import plain_text
from serving.lab.corpus.typed import typed, typed_on_the_go
from serving.lab.corpus.unknown import beyond
from serving.topics.names import OTHER

__all__ = ["DialogueTurn", "Document", "conversations", "dialogue", "documents", "prompts"]

EXCHANGE = {
    "legal": legal.exchange,
    "humanities": humanities.exchange,
    "cs": cs.exchange,
    "science": science.exchange,
    "math": maths.exchange,
    "logic": logic.exchange,
    OTHER: other.exchange,
}
SUBJECT = {"cs": "programming and computers", "math": "mathematics", "legal": "law", OTHER: "daily life"}
SPLITS = {"train": 0, "held-out": 1}
HELD_OUT_SHARE = 8  # One in so many questions is never asked in training.
# How often a topic comes in the stream. Sums need many examples, and daily life has the most to be asked about.
WEIGHTS = {"legal": 10, "humanities": 10, "cs": 10, "science": 10, "math": 24, "logic": 8, OTHER: 30}
TOOLS_SHARE, JSON_SHARE, TEXT_SHARE = 0.04, 0.03, 0.06
# Beside dialogues on anything, tools and JSON need more examples: with 4 % of the others, a model called `clock` to be
# told the weather, and with 3 % it put cities into JSON that nobody had named.
TOOLS_BESIDE_ASKED, JSON_BESIDE_ASKED = 0.15, 0.12
IN_WORDS = 0.15  # of what could be answered as JSON, where nobody asks for that
RECALL_SHARE = 0.04  # short chats in which something told is asked for again
# What the trained model is judged by, which it must not have read word for word.
JUDGED_QUESTIONS: list[str] = json.loads(Path(__file__).with_name("judged_questions.json").read_text(encoding="utf-8"))
JUDGED = {question.lower().rstrip(".?") for question in JUDGED_QUESTIONS}
BEYOND = 0.05  # of a topic's questions, how many the model can't answer
SHORTEST, LONGEST = 300, 3000  # words of a conversation, about
SHORT = (20, 150)  # words of one that only asks again
FOLLOWED, SYSTEM = 0.2, 0.06


def dialogue(topic: str, seed: int) -> Document:
    """Return the seed-th dialogue of a topic: for training if the seed is even, else held out."""
    draw = TextDraw(Random(f"{topic}/{seed}"))
    exchange = _exchange(topic, draw)
    while _kept_back(topic, exchange.prompt, seed):
        exchange = _exchange(topic, draw)
    prompt = exchange.prompt if topic == OTHER else typed(exchange.prompt, draw)
    return _document(topic, prompt, exchange, draw)


def asked(seed: int) -> Document:
    """Return the seed-th dialogue on anything that people ask: for training if the seed is even, else held out."""
    draw = TextDraw(Random(f"asked/{seed}"))
    topic, exchange = asked_of_anything(draw)
    while exchange.prompt.lower().rstrip(".?") in JUDGED or _held_out(exchange.prompt) != (seed % 2 == 1):
        topic, exchange = asked_of_anything(draw)
    return _document(topic, typed_on_the_go(exchange.prompt, draw), exchange, draw)


def _document(topic: str, prompt: str, exchange: Exchange, draw: TextDraw) -> Document:
    """Return the exchange as it was typed, at times with a system's word before it or another question after it."""
    turns = [DialogueTurn("user", prompt), DialogueTurn("assistant", exchange.answer)]
    if draw.chance(SYSTEM):
        turns.insert(
            0, DialogueTurn("system", knowledge(OTHER).say("{system}", draw, subject=SUBJECT.get(topic, topic)))
        )
    if draw.chance(FOLLOWED):
        turns += _followed(exchange, draw)
    return Document(topic, tuple(turns))


def documents(seed: int, split: str, asked_share: float = 0.0) -> Iterator[Document]:
    """Yield an endless mixed stream of documents: dialogues, chats with tools, answers as JSON, plain texts, and as a
    share of them dialogues on anything that people ask."""
    rng = Random(f"{split}/{seed}")
    tools, objects = (TOOLS_BESIDE_ASKED, JSON_BESIDE_ASKED) if asked_share else (TOOLS_SHARE, JSON_SHARE)
    while True:
        if asked_share and rng.random() < asked_share:
            yield _asked(rng, split)
            continue
        kind, dialogue_ = rng.random(), _dialogue(rng, split)
        draw = TextDraw(rng)
        if kind < tools:
            plain = _asked(rng, split) if asked_share and rng.random() < asked_share else dialogue_
            yield tool_chat(draw, plain, on_the_go=asked_share > 0)
        elif kind < tools + objects:
            yield in_words(draw) if draw.chance(IN_WORDS) else structured(draw)
        elif kind < tools + objects + RECALL_SHARE:
            yield conversation(draw, partial(_part, _topic(rng), split), draw.number(*SHORT))
        else:
            yield plain_text(draw) if kind < tools + objects + RECALL_SHARE + TEXT_SHARE else dialogue_


def conversations(seed: int, split: str) -> Iterator[Document]:
    """Yield an endless stream of long conversations, each in one topic."""
    rng = Random(f"conversations/{split}/{seed}")
    while True:
        parts = partial(_part, _topic(rng), split)
        yield conversation(TextDraw(rng), parts, rng.randint(SHORTEST, LONGEST))


def _part(topic: str, split: str, seed: int) -> Document:
    return dialogue(topic, 2 * seed + SPLITS[split])


def _asked(rng: Random, split: str) -> Document:
    return asked(2 * rng.getrandbits(48) + SPLITS[split])


def _dialogue(rng: Random, split: str) -> Document:
    return dialogue(_topic(rng), 2 * rng.getrandbits(48) + SPLITS[split])


def _topic(rng: Random) -> str:
    return rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]


def prompts(topic: str, count: int, seed: int) -> list[str]:
    """Return what held-out users ask first in a topic, all different."""
    rng = Random(f"prompts/{topic}/{seed}")
    found: dict[str, None] = {}
    while len(found) < count:
        turns = dialogue(topic, 2 * rng.getrandbits(48) + SPLITS["held-out"]).turns
        found[next(turn.content for turn in turns if turn.role == "user")] = None
    return list(found)


def _exchange(topic: str, draw: TextDraw) -> Exchange:
    return beyond(topic, draw) if topic != OTHER and draw.chance(BEYOND) else EXCHANGE[topic](draw)


def _kept_back(topic: str, prompt: str, seed: int) -> bool:
    if prompt.lower().rstrip(".?") in JUDGED:
        return True
    return topic != OTHER and _held_out(prompt) != (seed % 2 == 1)


def _held_out(prompt: str) -> bool:
    return crc32(prompt.encode()) % HELD_OUT_SHARE == 0


def _followed(exchange: Exchange, draw: TextDraw) -> list[DialogueTurn]:
    """Return what is asked next, and the answer; thanks if there is nothing to ask."""
    kinds = [kind for kind in exchange.more if exchange.more[kind] != exchange.answer]
    if not kinds or draw.chance(0.15):
        return [DialogueTurn("user", _follow("thanks", draw)), DialogueTurn("assistant", _follow("welcome", draw))]
    turns: list[DialogueTurn] = []
    for kind in draw.some(kinds, 2 if draw.chance(0.2) else 1):
        turns += [DialogueTurn("user", _follow(kind, draw)), DialogueTurn("assistant", capital(exchange.more[kind]))]
    return turns


def _follow(kind: str, draw: TextDraw) -> str:
    wordings: list[str] = PHRASING["follow"][kind]
    return draw.pick(wordings)
