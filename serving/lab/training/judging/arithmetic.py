"""Sums: how many of those that no drill ever asked come out right."""

import re
from dataclasses import dataclass
from itertools import product
from random import Random

from transformers import PreTrainedTokenizerFast, Qwen3MoeForCausalLM

from serving.lab.corpus.arithmetic.drills import KEPT_BACK, kept_back
from serving.lab.corpus.parts import DialogueTurn
from serving.lab.training.judging.replies import greedy

COUNT = 30  # sums of each kind
# What is asked, by kind: the sign, the ranges of both numbers, whether only those that were kept back.
KINDS = {
    "two digits plus two digits": ("+", range(10, 100), range(10, 100), True),
    "two digits minus two digits": ("-", range(10, 100), range(10, 100), True),
    "two digits plus or minus one": ("+-", range(13, 100), range(1, 10), True),
    "two digits times one": ("*", range(13, 61), range(2, 10), True),
    "the table of ten": ("*", range(2, 11), range(2, 11), False),
    "its quotients": ("/", range(2, 11), range(2, 11), False),
}


@dataclass(frozen=True, slots=True)
class SumResult:
    """Of one kind of sums: how many were asked, how many came out right, and whether they were kept from training."""

    kind: str
    asked: int
    right: int
    kept_back: bool


def drawn(kind: str) -> list[tuple[int, str, int, int]]:
    """Draw sums of a kind, with their results."""
    signs, ones, others, kept = KINDS[kind]
    found = [
        (a * b, "/", b, a) if sign == "/" else (a, sign, b, {"+": a + b, "-": a - b, "*": a * b}[sign])
        for a, sign, b in product(ones, signs, others)
        if (sign != "-" or a >= b) and (not kept or kept_back(a, sign, b))
    ]
    return Random(kind).sample(found, COUNT)


def is_right(sum_: tuple[int, str, int, int], reply: str) -> bool:
    """Tell whether a reply gives this sum its result, and no other."""
    a, sign, b, result = sum_
    given = re.findall(rf"\b{a} \{sign} {b} (?:=|is) (-?\d+)", reply)
    return bool(given) and set(given) == {str(result)}


def measure(hf: Qwen3MoeForCausalLM, tokenizer: PreTrainedTokenizerFast) -> list[SumResult]:
    """Ask sums of each kind, greedily."""
    results = []
    for kind in KINDS:
        right = 0
        for sum_ in drawn(kind):
            asked = [DialogueTurn("user", f"What is {sum_[0]} {sum_[1]} {sum_[2]}?")]
            right += is_right(sum_, greedy(hf, tokenizer, asked)[0])
        results.append(SumResult(kind, COUNT, right, KINDS[kind][3]))
    return results


__all__ = ["COUNT", "KEPT_BACK", "KINDS", "SumResult", "drawn", "is_right", "measure"]
