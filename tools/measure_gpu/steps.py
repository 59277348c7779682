"""Steps: how long a pass takes that decodes for a batch, and one that computes a prompt."""

from collections import Counter
from itertools import pairwise
from statistics import median
from time import perf_counter
from typing import NamedTuple

from tools.measure_gpu.engine import BATCHED_TOKENS, Engine
from tools.measure_gpu.power import Meter
from tools.measure_gpu.tables import Step, TimedStep

DROPPED, TIMED = 8, 24
"""Steps that decode before those that are timed, and these, of which the median counts."""
AHEAD = DROPPED + (TIMED - 1) / 2
"""By how many tokens a context has grown, on average, when it is timed."""
WATTS_S = 1.0
"""Seconds of further steps over which watts are a mean, as a GPU's counter of energy moves some 10 times a second."""
SLACK_TOKENS = 2 * (DROPPED + TIMED)
"""Tokens that a sequence may grow by beyond the context that is asked for; the second of watts ends with it at last."""
PROMPTS = 3
"""Times that a prompt is computed after once for nothing; the median counts."""


class Pass(NamedTuple):
    """When a step's tokens came, and the mean context of the sequences that it computed."""

    at_s: float
    context: float


def prompt_of(step: Step) -> int:
    """Return the tokens of prompts whose sequences have this context on average when they are timed: the first of them
    decode while the last are still computed, `BATCHED_TOKENS` a step."""
    return max(1, round((step.context - AHEAD) / (1 + (step.batch - 1) / (2 * BATCHED_TOKENS))))


def room_of(step: Step) -> int:
    """Return the tokens of KV cache that a measurement of it takes."""
    return step.batch * (step.context + SLACK_TOKENS) if step.context else step.new_tokens + 1


def measured(engine: Engine, step: Step, meter: Meter) -> TimedStep:
    """Measure a step."""
    return _decoding(engine, step, meter) if step.context else _prompt(engine, step)


def decoded(engine: Engine, batch: int, steps: int) -> list[int]:
    """Return what so many sequences decode in so many steps, step by step."""
    names = [engine.add(engine.prompt(1), steps) for _ in range(batch)]
    tokens: dict[str, list[int]] = {name: [] for name in names}
    while any(len(found) < steps for found in tokens.values()):
        for name, new in engine.step().items():
            tokens[name] += new
    return [token for step in zip(*tokens.values(), strict=True) for token in step]


def _decoding(engine: Engine, step: Step, meter: Meter) -> TimedStep:
    prompt = prompt_of(step)
    longest = min(int(engine.config["max_position_embeddings"]), engine.room_tokens // step.batch) - prompt
    names = [engine.add(engine.prompt(prompt), longest) for _ in range(step.batch)]
    tokens: Counter[str] = Counter()
    while len(tokens) < step.batch:
        _pass(engine, tokens, prompt)
    for _ in range(DROPPED - 1):
        _pass(engine, tokens, prompt)
    passes = [_pass(engine, tokens, prompt) for _ in range(TIMED + 1)]
    seconds = median(later.at_s - sooner.at_s for sooner, later in pairwise(passes))
    context = round(sum(one.context for one in passes[1:]) / TIMED)
    watts = _watts(engine, tokens, longest, meter)
    engine.end(names)
    return TimedStep(Step(step.batch, context, 1), seconds, watts)


def _watts(engine: Engine, tokens: "Counter[str]", longest: int, meter: Meter) -> float | None:
    """Return the mean power of further steps, `WATTS_S` long, or until the first sequence is about to end."""
    until_s = perf_counter() + WATTS_S
    with meter.watts() as drawn:
        while meter.works and perf_counter() < until_s and max(tokens.values()) < longest - DROPPED:
            _pass(engine, tokens, 0)
    return drawn[0] if drawn else None


def _pass(engine: Engine, tokens: "Counter[str]", prompt: int) -> Pass:
    """Run steps until tokens come, and count them."""
    while not (came := engine.step()):
        pass
    at_s = perf_counter()
    for name, new in came.items():
        tokens[name] += len(new)
    # The pass that gave a sequence's n-th token found its prompt and n - 2 tokens in the KV cache.
    return Pass(at_s, prompt + sum(tokens[name] for name in came) / len(came) - 2)


def _prompt(engine: Engine, step: Step) -> TimedStep:
    return TimedStep(step, median([_alone_s(engine, step.new_tokens) for _ in range(PROMPTS + 1)][1:]), None)


def _alone_s(engine: Engine, tokens: int) -> float:
    """Return the seconds from the first step until a prompt's first token is there; it was taken in before."""
    name = engine.add(engine.prompt(tokens), 1)
    began_s = perf_counter()
    while name not in engine.step():
        pass
    seconds = perf_counter() - began_s
    engine.end([name])
    return seconds
