"""A phrase grammar: "{noun}" in a text stands for any of the texts of the rule `noun`, which may hold slots themselves.

What is bound to a name comes before the rule of that name, so that a question and its answer speak of the same thing.
`{noun.s}` is the plural, `{noun.cap}` starts with a capital letter. `{deed.you}` says "your" where somebody said "my",
as an answer takes it up, and `{deed.they}` says "their". Write "a {noun}": `prose` makes it "an" where due.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from serving.lab.corpus.parts import TextDraw

SLOT = re.compile(r"\{([\w.]+)\}")
VOWEL_SOUND = (
    r"(?!(?:uni(?!n|m)|unix|us(?:e|a|u)|util|eu|one\b|once|ubiq|URL|UTF|U-|UK|US\b|UN\b))(?:[aeiou]|[AEIO](?=[a-z])|U(?=[a-z])"
    r"|hour|honest|honou?r|heir|(?:HTTP|HTML|SQL|SSD|SSH|LRU|MRI|NP|RNA|XML|XOR|AND|OR|API|ISP|IP|OS|AI|AVL|IDE|AC|n|x)\b"
    r"|X-ray|8|11\b|18\b)"
)
ARTICLE = re.compile(rf"\b([Aa]) (?={VOWEL_SOUND})")
IRREGULAR = {
    "person": "people",
    "child": "children",
    "man": "men",
    "woman": "women",
    "wife": "wives",
    "knife": "knives",
    "leaf": "leaves",
    "wolf": "wolves",
    "shelf": "shelves",
    "thief": "thieves",
    "half": "halves",
    "loaf": "loaves",
    "scarf": "scarves",
    "calf": "calves",
    "mouse": "mice",
    "tooth": "teeth",
    "foot": "feet",
    "goose": "geese",
    "potato": "potatoes",
    "tomato": "tomatoes",
    "hero": "heroes",
    "buffalo": "buffaloes",
    "mosquito": "mosquitoes",
}
# Nouns that are the same in the plural, by their ends, so that a goldfish and headphones are among them.
SAME = re.compile(
    r"(?:fish|sheep|deer|bison|salmon|trout|cod|squid|dozen|aircraft|series|species|"
    r"glasses|binoculars|scissors|trousers|shorts|jeans|pliers|phones|clothes|news)$"
)


def prose(text: str) -> str:
    """Return the text with "an" before each vowel sound."""
    return ARTICLE.sub(r"\1n ", text)


def capital(text: str) -> str:
    """Return the text with a capital first letter."""
    return text[:1].upper() + text[1:]


def plural(noun: str) -> str:
    """Return the noun, or noun phrase that ends in its noun, in the plural."""
    head, _, last = noun.rpartition(" ")
    return f"{head} {_plural_word(last)}".lstrip()


def _plural_word(word: str) -> str:
    if SAME.search(word):
        return word
    if word in IRREGULAR:
        return IRREGULAR[word]
    if word.endswith("man") and word not in ("human", "German"):
        return word[:-3] + "men"
    if re.search(r"(s|x|z|ch|sh)$", word):
        return word + "es"
    if re.search(r"[^aeiou]y$", word):
        return word[:-1] + "ies"
    return word + "s"


def listed(items: Sequence[str], last: str = "and") -> str:
    """ "p, q and r"."""
    return f"{', '.join(items[:-1])} {last} {items[-1]}" if len(items) > 1 else "".join(items)


YOURS = {"my": "your", "I": "you", "me": "you", "myself": "yourself", "mine": "yours"}
THEIRS = {"my": "their", "I": "they", "me": "them", "myself": "themselves", "mine": "theirs"}
FIRST_PERSON = re.compile(r"(?<![\w'-])(?:my|I|me|myself|mine)(?![\w'-])")


def yours(text: str) -> str:
    """Return what somebody said of himself as an answer takes it up: "my desk" is "your desk"."""
    return FIRST_PERSON.sub(lambda found: YOURS[found.group()], text)


def theirs(text: str) -> str:
    """Return what somebody said of himself as it is told of others: "my desk" is "their desk"."""
    return FIRST_PERSON.sub(lambda found: THEIRS[found.group()], text)


FORMS = {"s": plural, "cap": capital, "you": yours, "they": theirs}


@lru_cache(maxsize=50_000)
def _parts(text: str) -> tuple[str, ...]:
    return tuple(SLOT.split(text))


class Grammar:
    """Rules by name."""

    def __init__(self, rules: Mapping[str, Sequence[str]]) -> None:
        self.rules = rules

    def expand(self, text: str, draw: TextDraw, bound: Mapping[str, str] | None = None) -> str:
        """Return the text with every slot filled. Raise KeyError at a slot that has neither rule nor binding."""
        parts = _parts(text)
        if len(parts) == 1:
            return text
        known = bound or {}
        filled = [self._fill(part, draw, known) if i % 2 else part for i, part in enumerate(parts)]
        return "".join(filled)

    def _fill(self, slot: str, draw: TextDraw, bound: Mapping[str, str]) -> str:
        name, _, form = slot.partition(".")
        value = bound[name] if name in bound else self.expand(draw.pick(self.rules[name]), draw, bound)
        return FORMS[form](value) if form else value
