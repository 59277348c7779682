"""One device's queue of work, as the forecast of a first token knows it."""

from bisect import bisect_left, insort
from collections import Counter
from dataclasses import dataclass, field
from math import ceil, exp
from typing import NamedTuple

from serving.admission.answer_lengths import AnswerLengths, size_of
from serving.admission.step_times import Pace
from serving.types import NEVER, Request, StepRecord

# How much of each step goes into what is learned: the last ten count for most.
STEPS = 0.1
# No step with a prompt says more than this of the next ones: chunks deep in a long prompt take longer than any model
# without context. One without a prompt that drafts does take many times as long as a plain one.
MOST_SLOWER = 4.0
# Kinds of steps: without prompts, with prompts beside sequences that decode (or draft), with prompts alone.
STEP_KINDS = PLAIN, BESIDE, ALONE = range(3)
# Prompt tokens of a step where nothing but its budget bounds them.
NO_CHUNK = 2**62
# Tokens of a sequence on a device that has none.
USUAL_CONTEXT = 512


class DecodeSteps(NamedTuple):
    """The steps, by the queue's count, of a sequence's first token and its expected last one."""

    first: float
    end: float


def unslowed() -> list[float]:
    """Return the slowdown of each kind of steps of which nothing is known."""
    return [1.0] * len(STEP_KINDS)


@dataclass(slots=True)
class DeviceQueue:
    """One device's queue of work. `steps` are counted in tokens that they give each sequence, accepted drafts included.
    A step computes up to `budget` tokens, up to `chunk` of them of prompts; with `apart` it has prompts alone, and who
    decodes waits.

    Of its `requests`, `waiting` have no first token; they have `prompts` tokens of prompt, of which `computed` are done
    and `under_way` in the step that ends at `end_s`, for as many requests as have a place, and `wanted` tokens to come,
    by their sizes in `answers`.
    The others are `decoding`, each from one step to another or so; `end_steps` are these last steps in order, and
    `context` is the sum of their tokens. `beside` of them are in the step under way, and `finished` tokens of prompt
    were those of requests that now decode. `beside_s`, worked out once until they change, is what they take for a step,
    and what they add to one with prompts.
    Learned are: the `slowdown` of steps without prompts, of prompts beside sequences that decode, and of prompts alone,
    against what the model says (throttled, contended, drafting), `tokens_per_step` of a sequence, and how long
    `answers` are.
    """

    pace: Pace
    slots: int
    budget: int
    kv_tokens: int
    chunk: int = NO_CHUNK
    apart: bool = False
    requests: dict[str, Request] = field(default_factory=dict)
    decoding: dict[str, DecodeSteps] = field(default_factory=dict)
    waiting: int = 0
    prompts: int = 0
    wanted: Counter[int] = field(default_factory=Counter)
    computed: int = 0
    under_way: int = 0
    end_s: float = 0.0
    steps: float = 0.0
    context: float = 0.0
    end_steps: list[float] = field(default_factory=list)
    beside: int = 0
    finished: int = 0
    beside_s: tuple[float, float] | None = None
    slowdown: list[float] = field(default_factory=unslowed)
    tokens_per_step: float = 1.0
    answers: AnswerLengths = field(default_factory=AnswerLengths)

    def add(self, request: Request) -> None:
        """Queue a request, with none of its tokens."""
        self.requests[request.id] = request
        self._count(request, 1)

    def decode(self, request_id: str, released: int) -> None:
        """Record a request's first `released` tokens; ignore one that has had its first."""
        if request_id in self.decoding:
            return
        request, first = self.requests[request_id], self.steps - released
        self._count(request, -1)
        self.finished += request.prompt_tokens
        self.context += request.prompt_tokens + released
        end = first + self._length(request)
        self.decoding[request_id] = DecodeSteps(first, end)
        insort(self.end_steps, end)
        self.beside_s = None

    def finish(self, request_id: str, made: int) -> None:
        """Remove a request, which ended with `made` tokens, and learn from it if it had any."""
        request, decoded = self.requests[request_id], request_id in self.decoding
        self.remove(request_id)
        if decoded:
            self.answers.learn(request, made)

    def remove(self, request_id: str) -> None:
        """Remove a request, wherever it is."""
        request = self.requests.pop(request_id)
        if decoding := self.decoding.pop(request_id, None):
            del self.end_steps[bisect_left(self.end_steps, decoding.end)]
            self.beside_s = None
            left = self.context - request.prompt_tokens - (self.steps - decoding.first)
            self.context = max(0.0, left) if self.end_steps else 0.0
        else:
            self._count(request, -1)
            self.computed = min(self.computed, self.prompts)
        if not self.requests:
            # What was learned was of that crowd. Kept, it could turn everybody away from a device with nothing to do,
            # which then makes no step that would teach it better. What it takes beside others, they will teach.
            self.slowdown[ALONE] = 1.0
            # Of a prompt whose only token came behind its step no other step will take it off.
            self.computed = 0

    def _count(self, request: Request, sign: int) -> None:
        """Count a request among those that wait, or (-1) no more."""
        self.waiting += sign
        self.prompts += sign * request.prompt_tokens
        self.wanted[size_of(request)] += sign * request.max_tokens

    def tokens_per_s(self, sequences: int) -> float:
        """Return the tokens per emulated second that each of `sequences` sequences gets at the present pace."""
        context = self._mean_context() if self.end_steps else USUAL_CONTEXT
        step_s = self.slowdown[PLAIN] * self.pace.decode_s(min(sequences, self.slots), context)
        return self.tokens_per_step / step_s if step_s > 0 else 0.0

    def begin(self, at_s: float) -> None:
        """Begin the step after the one that ended at `at_s`."""
        self.beside, self.finished = len(self.end_steps), 0
        # What came from a device that was lost may be more than there are.
        places = max(0, self.slots - self.beside)
        begun = min(1.0, places / self.waiting) if self.waiting else 0.0
        self.under_way = min(self._room(), int(begun * (self.prompts - self.computed))) if self.admits else 0
        self.end_s = at_s + self._step_s(self.under_way)

    @property
    def admits(self) -> bool:
        """Tell whether the next step may compute prompts."""
        return True

    def learn(self, record: StepRecord) -> None:
        """Learn from a step made: prompt progress, and its duration against the expected one."""
        prompts_alone = record.phase == "prefill"
        beside = 0 if prompts_alone else self.beside
        prefilled = max(0, record.new_tokens - beside)
        expected = self.pace.step_s(prefilled, beside, self._mean_context())
        if expected > 0:
            kind = PLAIN if not prefilled else BESIDE if beside else ALONE
            ratio = min(record.latency_s / expected, MOST_SLOWER if prefilled else NEVER)
            self.slowdown[kind] += STEPS * (ratio - self.slowdown[kind])
        if beside:
            self.tokens_per_step += STEPS * (1 + record.accepted / beside - self.tokens_per_step)
        if not (self.apart and prompts_alone):
            self.steps += self.tokens_per_step
            self.context += self.tokens_per_step * len(self.end_steps)
        self.beside_s = None
        self.computed = min(max(0, self.computed + prefilled - self.finished), self.prompts)

    def ttft_s(self, prompt_tokens: int, now_s: float) -> float:
        """Return the seconds from `now_s` to the first token of a prompt queued behind all others."""
        ahead = self.prompts - self.computed
        if not self.end_steps and not ahead:
            return self._chunks_s(prompt_tokens)
        left_s = max(0.0, self.end_s - now_s)
        ahead -= min(self.under_way, ahead)
        if self.pace.schedules_ahead:  # the step after this one is planned, too
            left_s += self._step_s(0)
        return left_s + self._after_s(ahead, prompt_tokens)

    def _after_s(self, ahead: int, prompt_tokens: int) -> float:
        """Return the seconds from the end of the current step to that first token, with `ahead` prompt tokens of others
        to compute."""
        departures = self._departures(prompt_tokens)
        if departures <= 0 or not self.end_steps:
            return self._chunks_s(ahead + prompt_tokens)
        steps, entries = self._wait(departures)
        each = ahead / entries
        with_prompts = 0.0 if self.apart else (entries - 1) * max(1.0, each / self._room())
        plain_s = max(0.0, steps / self.tokens_per_step - with_prompts) * self._step_s(0)
        return plain_s + (entries - 1) * self._chunks_s(each) + self._chunks_s(each + prompt_tokens)

    def _wait(self, departures: int) -> tuple[float, float]:
        """Return the steps until `departures` sequences have left, and in how many of these steps others come in, each
        with a prompt.

        A place that was left at step `due` is taken, and left again every `length` steps, on average. So with the `m`
        soonest of those that decode now, `m + sum(steps - due) / length` have left after `steps`. Where a step of the
        device gives several tokens, half of those of the last one are nobody's, and that of a prompt gives one.
        """
        spare = (self.tokens_per_step - 1.0) / 2
        expected = sum(self.answers.share(size) * tokens for size, tokens in self.wanted.items() if tokens)
        length = max(1.0, expected / self.waiting) if self.waiting else 1.0
        length += 3 * spare
        now, steps, total, places, left = self.steps, 0.0, 0.0, 0, departures * length
        for end in self.end_steps:
            due = spare + (end - now if end > now else 0.0)
            if steps <= due and places:
                break
            total += due
            places += 1
            left -= length
            steps = (left + total) / places
            if steps < due:
                steps = due
        # Who leaves in one step of the device, which may give each several tokens, lets others in at once; places that
        # are taken anew are left at random.
        apart = len({int((end - now) / self.tokens_per_step) for end in self.end_steps[:places]})
        again, device_steps = max(0, departures - places), steps / self.tokens_per_step
        alone = max(0.0, device_steps - apart) * (1 - exp(-again / max(1.0, device_steps)))
        return steps, max(1.0, min(departures, apart + alone))

    def _departures(self, prompt_tokens: int) -> int:
        """Return how many sequences must leave before one more has a place and room in the KV cache."""
        over = self.context + self.prompts + prompt_tokens - self.kv_tokens
        for_room = ceil(over / max(1.0, self._mean_context())) if over > 0 else 0
        return max(self.waiting + len(self.end_steps) + 1 - self.slots, for_room)

    def _chunks_s(self, prompt_tokens: float) -> float:
        """Return the seconds that `prompt_tokens` take, in steps as full as they may be."""
        room = self._room()
        full, rest = divmod(prompt_tokens, room)
        return full * self._step_s(room) + (self._step_s(rest) if rest else 0.0)

    def _room(self) -> int:
        beside = 0 if self.apart else len(self.end_steps)
        return max(1, min(self.budget - beside, self.chunk))

    def _step_s(self, prompt_tokens: float) -> float:
        decoding = len(self.end_steps)
        if self.apart and prompt_tokens > 0:
            return self.slowdown[ALONE] * self.pace.prefill_s(prompt_tokens)
        if self.beside_s is None:
            context = self._mean_context()
            self.beside_s = self.pace.decode_s(decoding, context), self.pace.reading_s(decoding, context)
        plain_s, reading_s = self.beside_s
        if prompt_tokens <= 0:
            return self.slowdown[PLAIN] * plain_s
        slowdown = self.slowdown[BESIDE if decoding else ALONE]
        return slowdown * (self.pace.prefill_s(prompt_tokens + decoding) + reading_s)

    def _length(self, request: Request) -> float:
        """Return how many tokens a request is expected to take of those that it may."""
        return max(1.0, self.answers.share(size_of(request)) * request.max_tokens)

    def _mean_context(self) -> float:
        return self.context / len(self.end_steps) if self.end_steps else 1.0
