"""The corpus: dialogues by topic and seed, and an endless mixed stream of them.

Even seeds are for training, odd ones held out. No text of a first question is asked in both, so a held-out dialogue
pairs a wording and a subject that training never does; only `other` has too few greetings for that. A dialogue depends
on its topic and seed alone, on no other dialogue and no machine; only the texts of `machine` differ between machines,
and `documents` can leave them out.
"""

from collections.abc import Iterator
from random import Random
from zlib import crc32

from serving.lab.corpus import cs, humanities, legal, logic, maths, other, science
from serving.lab.corpus.grammar import capital
from serving.lab.corpus.knowledge import PHRASING, knowledge
from serving.lab.corpus.machine import texts
from serving.lab.corpus.parts import DialogueTurn, Document, Exchange, TextDraw
from serving.topics.names import OTHER, TOPICS

__all__ = ["DialogueTurn", "Document", "dialogue", "documents", "prompts"]

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
OTHER_SHARE = 0.5 / 6.5
MACHINE_SHARE = 0.1
FOLLOWED, SYSTEM, LOOSE, TYPO, POLITE = 0.2, 0.06, 0.1, 0.03, 0.12


def dialogue(topic: str, seed: int) -> Document:
    """Return the seed-th dialogue of a topic: for training if the seed is even, else held out."""
    draw = TextDraw(Random(f"{topic}/{seed}"))
    exchange = EXCHANGE[topic](draw)
    while topic != OTHER and _held_out(exchange.prompt) != (seed % 2 == 1):
        exchange = EXCHANGE[topic](draw)
    turns = [
        DialogueTurn("user", exchange.prompt if topic == OTHER else _typed(exchange.prompt, draw)),
        DialogueTurn("assistant", exchange.answer),
    ]
    if draw.chance(SYSTEM):
        turns.insert(
            0, DialogueTurn("system", knowledge(OTHER).say("{system}", draw, subject=SUBJECT.get(topic, topic)))
        )
    if draw.chance(FOLLOWED):
        turns += _followed(exchange, draw)
    return Document(topic, tuple(turns))


def documents(seed: int, split: str, machine: bool = True) -> Iterator[Document]:
    """Yield an endless mixed stream of documents; without `machine` it is the same on every machine. Only training has
    its texts."""
    rng = Random(f"{split}/{seed}")
    plain = texts() if machine and split == "train" else ()
    while True:
        if plain and rng.random() < MACHINE_SHARE:
            yield rng.choice(plain)
        else:
            topic = OTHER if rng.random() < OTHER_SHARE else rng.choice(TOPICS)
            yield dialogue(topic, 2 * rng.getrandbits(48) + SPLITS[split])


def prompts(topic: str, count: int, seed: int) -> list[str]:
    """Return what held-out users ask first in a topic, all different."""
    rng = Random(f"prompts/{topic}/{seed}")
    found: dict[str, None] = {}
    while len(found) < count:
        turns = dialogue(topic, 2 * rng.getrandbits(48) + SPLITS["held-out"]).turns
        found[next(turn.content for turn in turns if turn.role == "user")] = None
    return list(found)


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


def _typed(prompt: str, draw: TextDraw) -> str:
    """Return the prompt as somebody types it: mostly as it is, at times polite, careless or mistyped."""
    if draw.chance(POLITE):
        return _polite(prompt, draw)
    if draw.chance(LOOSE):
        return _careless(prompt)
    return _mistyped(prompt, draw) if draw.chance(TYPO) else prompt


def _careless(prompt: str) -> str:
    """Without its last stop, and without a capital unless the first word is a name or an acronym."""
    first = prompt.split(" ", 1)[0]
    return (prompt[0].lower() + prompt[1:] if first[1:].islower() else prompt).rstrip(".?")


def _polite(prompt: str, draw: TextDraw) -> str:
    known = knowledge(OTHER)
    if draw.chance(0.6):
        return known.say("{hello}", draw) + prompt
    return prompt + known.say("{thanks_in_advance}", draw)


def _mistyped(prompt: str, draw: TextDraw) -> str:
    """Two neighbouring letters of one long word exchanged."""
    words = prompt.split(" ")
    long = [i for i, word in enumerate(words) if len(word) > 5 and word.isalpha()]
    if long:
        at = draw.pick(long)
        cut = draw.number(1, len(words[at]) - 3)
        word = words[at]
        words[at] = word[:cut] + word[cut + 1] + word[cut] + word[cut + 2 :]
    return " ".join(words)
