"""Text for the segments of a workload's prompts: as many tokens as asked, by the bundled model's tokenizer.

Segments of one id have the same text. Text about a topic is made of questions that people ask in it.
"""

import json
from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import count
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tokenizers import Tokenizer

from serving.scenario.scenario import BUNDLED_MODEL
from serving.workload import Segment
from serving.workload.seeded_chance import MASK, mix

# So common that each is one token, also in the bundled model's small vocabulary: no other tokenizer is needed, and
# texts drawn from them hit no prefix cache.
_COMMON = """
all always another any are available been being block bound call can change client close color common complete
connection count create current data directory does either end equal example except flag follow found full function
handle help instead into length list local lock look man mark mean member name need normal object off only option
output pair pass position process read request result return run same sample section set should sign simple some store
stream string such system test than then through top try two until use was way week when where which without would
write you your
"""
WORDS = _COMMON.split()
# Questions by topic, from the bundled model's corpus (`serving/lab/corpus`), so that it can answer them.
QUESTIONS = Path(__file__).with_name("questions.json")
# Words before a text about a topic that no other text begins with: questions recur, and prefix caches are not to hit.
MARK = 4


class PromptQuestion(NamedTuple):
    """A question: its words, and the number of tokens of each."""

    words: list[str]
    tokens: list[int]


def prepare(topics: Iterable[str]) -> None:
    """Load the tokenizer and the topics' questions now, so that no request waits for it."""
    _first_words()
    for topic in topics:
        if topic in _asked():
            _questions(topic)


@lru_cache(2048)
def text_of(segment: Segment) -> str:
    """Return the text of a segment; segments of equal id begin alike, whatever their lengths.

    A topic without questions gets common words.
    """
    if segment.topic not in _asked() or segment.tokens <= MARK:
        return " ".join(_common(segment.id, 0, segment.tokens))
    words, left = _common(segment.id, 0, MARK), segment.tokens - MARK
    asked = _questions(segment.topic)
    for place in count():
        question = asked[mix((segment.id + place) & MASK) % len(asked)]
        for word, tokens in zip(*question, strict=True):
            if tokens > left:
                return " ".join(words + _common(segment.id, MARK, left))
            words.append(word)
            left -= tokens
    raise AssertionError  # There is always one more question.


def _common(id: int, start: int, tokens: int) -> list[str]:
    """Return words of one token each; the first of a text is one token without a space before it."""
    drawn = mix(np.arange(start, start + tokens, dtype=np.uint64) + np.uint64(id))
    words = [WORDS[place] for place in (drawn % np.uint64(len(WORDS))).tolist()]
    if start == 0 and words:
        first = _first_words()
        words[0] = first[int(drawn[0]) % len(first)]
    return words


@cache
def _first_words() -> list[str]:
    encoded = _tokenizer().encode_batch(WORDS, add_special_tokens=False)
    return [word for word, encoding in zip(WORDS, encoded, strict=True) if len(encoding.ids) == 1]


@cache
def _asked() -> dict[str, list[str]]:
    asked: dict[str, list[str]] = json.loads(QUESTIONS.read_text(encoding="utf-8"))
    return asked


@cache
def _questions(topic: str) -> list[PromptQuestion]:
    found = [question.split() for question in _asked()[topic]]
    words = list(dict.fromkeys(word for question in found for word in question))
    # A word with the space before it is as many tokens wherever it stands.
    encoded = _tokenizer().encode_batch([f" {word}" for word in words], add_special_tokens=False)
    tokens = {word: len(encoding.ids) for word, encoding in zip(words, encoded, strict=True)}
    return [PromptQuestion(question, [tokens[word] for word in question]) for question in found]


@cache
def _tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(BUNDLED_MODEL / "tokenizer.json"))
