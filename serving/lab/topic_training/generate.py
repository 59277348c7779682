"""Prompts made from lists: subjects in the ways that people ask for them, and what the bundled model's corpus asks."""

import tomllib
from collections.abc import Iterator
from importlib.resources import files
from random import Random
from typing import Any

from serving.lab.corpus.corpus import dialogue
from serving.topics.names import NAMES, OTHER

ASKED = 1  # times each subject
FROM_CORPUS = 30  # of each topic
WRAPPED = 0.2
MISTYPED = 0.15


def generate(seed: int) -> Iterator[tuple[str, str]]:
    """Topics and prompts, the same for the same seed."""
    asks, subjects = _load("asks"), _load("subjects")
    for topic in NAMES:
        rng = Random(f"{topic}/{seed}")
        forms = asks["wish" if topic == OTHER else "subject"]
        for subject in subjects[topic]:
            for form in rng.sample(forms, ASKED):
                yield topic, mistyped(form.format(x=subject, y=rng.choice(subjects[topic])), rng)
        for _ in range(FROM_CORPUS):
            yield topic, _asked_in_corpus(topic, rng)


def _load(name: str) -> dict[str, Any]:
    return tomllib.loads(files("serving.lab.topic_training").joinpath(f"{name}.toml").read_text(encoding="utf-8"))


def _asked_in_corpus(topic: str, rng: Random) -> str:
    turns = dialogue(topic, 2 * rng.getrandbits(48)).turns
    return next(turn.content for turn in turns if turn.role == "user")


def wrapped(prompt: str, rng: Random) -> str:
    """Return the prompt, at times with what people say around it, whatever it is about."""
    return rng.choice(_load("asks")["around"]).format(p=prompt) if rng.random() < WRAPPED else prompt


def mistyped(prompt: str, rng: Random) -> str:
    """Return the prompt, at times with two neighbouring letters of a word exchanged, or one left out."""
    words = prompt.split(" ")
    long = [i for i, word in enumerate(words) if len(word) > 4]
    if not long or rng.random() > MISTYPED:
        return prompt
    at = rng.choice(long)
    word, cut = words[at], rng.randrange(1, len(words[at]) - 2)
    swapped = word[:cut] + word[cut + 1] + word[cut] + word[cut + 2 :]
    words[at] = swapped if rng.random() < 0.5 else word[:cut] + word[cut + 1 :]
    return " ".join(words)
