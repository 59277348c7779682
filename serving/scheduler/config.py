"""A scheduler's configuration: the limits of its device, and the names of its policies."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path

from serving.policies.fairness import FairQueue
from serving.policies.prompt_pace import NO_TIME, PromptPace
from serving.policies.waiting_queue import Terms, WaitingQueue

BATCHING = tuple(
    sorted(path.stem.replace("_", "-") for path in (Path(__file__).parents[1] / "policies/batching").glob("[a-z]*.py"))
)
"""The batching policies: the files of `policies/batching`."""

MIXED, PREFILL_FIRST, DECODE_FIRST = PREFILL = ("mixed", "prefill-first", "decode-first")
"""Prompts and decoding in the same steps (Sarathi-Serve, vLLM V1); prompts in steps of their own as soon as there is
room for one (vLLM V0); no prompt as long as anything decodes (FasterTransformer)."""

RECOMPUTE, SPILL = PREEMPTION = ("recompute", "spill")
"""What becomes of the KV cache of a sequence that must leave: dropped, or moved to LPDDR until it goes on."""

NO_FAIRNESS, BY_TOKENS = FAIRNESS = ("none", "tokens")


@dataclass(frozen=True, slots=True)
class Limits:
    """A device's capacity in its present condition: sequences and tokens of one step, and tokens of the KV cache, in
    blocks.

    `spill_tokens`: room beside the KV cache for spilled tokens. `prompts`: the emulated seconds of prompts.
    """

    max_num_seqs: int
    max_num_batched_tokens: int
    kv_capacity_tokens: int
    block_tokens: int = 16
    spill_tokens: int = 0
    prompts: PromptPace = NO_TIME


@dataclass(frozen=True, slots=True)
class SchedulerRules:
    """The policies of a scheduler, by their names; the lists above are what is allowed.

    `prefill_chunk`: most prompt tokens in one step (0: as many as the step takes). `lookahead`: tokens that a drafting
    step may add to a sequence beside its own. `patience_s`, `hold_s`: see `policies.waiting_queue.Terms`. Times are
    emulated. With `kv_events` it tells what becomes of the prefix cache; with `keep_answers`, blocks of answers are
    found again once it is told (`Scheduler.remember`) what they say. With `schedules_ahead` a step is planned while the
    one before it runs, as vLLM does on GPUs: who comes meanwhile is in none of both.
    """

    batching: str = "fcfs"
    prefill: str = MIXED
    prefill_chunk: int = 0
    preemption: str = RECOMPUTE
    fairness: str = NO_FAIRNESS
    prefix_caching: bool = True
    lookahead: int = 0
    patience_s: float = 10.0
    hold_s: float = 0.0
    kv_events: bool = False
    keep_answers: bool = False
    schedules_ahead: bool = False

    def queue(self, prefill_s: Callable[[int], float]) -> WaitingQueue:
        """Return an empty queue of the batching policy, fair between keys if `fairness` says so. `prefill_s(tokens)`:
        the emulated seconds that the device takes for a prompt now."""
        terms = Terms(self.patience_s, prefill_s, self.hold_s)
        return FairQueue(partial(self._queue, terms)) if self.fairness == BY_TOKENS else self._queue(terms)

    def _queue(self, terms: Terms) -> WaitingQueue:
        policy = import_module(f"serving.policies.batching.{self.batching.replace('-', '_')}")
        queue: WaitingQueue = policy.Queue(terms)
        return queue


def prefill_s(limits: Limits, rules: SchedulerRules, tokens: int) -> float:
    """Return the emulated seconds that a device takes for a prompt of `tokens` tokens, each chunk of it a step."""
    return limits.prompts.prompt_s(tokens, most_prompt_tokens(limits, rules))


def most_prompt_tokens(limits: Limits, rules: SchedulerRules) -> int:
    """Return how many tokens of prompts a step computes at most."""
    return min(limits.max_num_batched_tokens, rules.prefill_chunk or limits.max_num_batched_tokens)
