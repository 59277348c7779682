"""Forecast of a request's first token on a device, from what the edge knows, without asking the device.

It models first come, first served, with prompts in chunks beside the sequences that decode, and aims to be right on
average: other policies' order, prefix cache hits and early stops are not known beforehand. A prediction takes some ten
microseconds however many requests wait: sums are kept up to date, and only the batch is looked through.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import ceil, exp

from serving.admission.step_times import Pace
from serving.types import Chunk, Request, StepRecord

# How much of each experience goes into what is learned: the last ten steps count for most, or the last thirty requests.
STEPS, REQUESTS = 0.1, 0.03
# No step says more than this of the next ones: chunks deep in a long prompt take longer than any model without context.
MOST_SLOWER = 4.0
# Tokens of a sequence on a device that has none.
USUAL_CONTEXT = 512


@dataclass(slots=True)
class ForecastRequest:
    """A request on a device: waiting for its first token (`end` is None), or decoding until step `end` or so."""

    device: int
    prompt_tokens: int
    max_tokens: int
    end: float | None = None
    first: float = 0.0


@dataclass(slots=True)
class DeviceQueue:
    """One device's queue of work. `steps` are counted in tokens that they give each sequence, accepted drafts included.

    `waiting` requests have no first token; they have `prompts` tokens of prompt, of which `computed` are done and
    `under_way` in the step that ends at `end_s`, and `wanted` tokens to come. The others decode: `ends` are the steps
    at which they should be done, in order, and `context` is the sum of their tokens. `beside` of them are in the step
    under way, and `finished` tokens of prompt were those of requests that now decode. `beside_s`, worked out once until
    they change, is what they take for a step, and what they add to one with prompts. Learned are: how much `slower`
    steps without and with prompts are than the model says (throttled, contended, drafting), what a step `gain`s a
    sequence, and which share of the tokens that requests may have they take (`length`).
    """

    pace: Pace
    slots: int
    budget: int
    kv_tokens: int
    waiting: int = 0
    prompts: int = 0
    wanted: int = 0
    computed: int = 0
    under_way: int = 0
    end_s: float = 0.0
    steps: float = 0.0
    context: float = 0.0
    ends: list[float] = field(default_factory=list)
    beside: int = 0
    finished: int = 0
    beside_s: tuple[float, float] | None = None
    slower: list[float] = field(default_factory=lambda: [1.0, 1.0])
    gain: float = 1.0
    length: float = 1.0

    def begin(self, at_s: float) -> None:
        """Begin the step after the one that ended at `at_s`."""
        self.beside, self.finished = len(self.ends), 0
        self.under_way = min(self._room(), self.prompts - self.computed) if self.beside < self.slots else 0
        self.end_s = at_s + self._step_s(self.under_way)

    def learn(self, record: StepRecord) -> None:
        """Learn from a step made: prompt progress, and its duration against the expected one."""
        prefilled = max(0, record.new_tokens - self.beside)
        expected = self.pace.step_s(prefilled, self.beside, self._mean_context())
        if expected > 0:
            kind = prefilled > 0
            ratio = min(MOST_SLOWER, record.latency_s / expected)
            self.slower[kind] += STEPS * (ratio - self.slower[kind])
        if self.beside:
            self.gain += STEPS * (1 + record.accepted / self.beside - self.gain)
        self.steps += self.gain
        self.context += self.gain * len(self.ends)
        self.beside_s = None
        self.computed = min(max(0, self.computed + prefilled - self.finished), self.prompts)

    def ttft_s(self, prompt_tokens: int, now_s: float) -> float:
        """Return the seconds from `now_s` to the first token of a prompt queued behind all others."""
        ahead = self.prompts - self.computed
        if not self.ends and not ahead:
            return self._chunks_s(prompt_tokens)
        left_s = max(0.0, self.end_s - now_s)
        ahead -= min(self.under_way, ahead)
        return left_s + self._after_s(ahead, prompt_tokens)

    def _after_s(self, ahead: int, prompt_tokens: int) -> float:
        """Return the seconds from the end of the current step to that first token, with `ahead` prompt tokens of others
        to compute."""
        departures = self._departures(prompt_tokens)
        if departures <= 0 or not self.ends:
            return self._chunks_s(ahead + prompt_tokens)
        steps, entries = self._wait(departures)
        each = ahead / entries
        with_prompts = (entries - 1) * max(1.0, each / self._room())
        plain_s = max(0.0, steps / self.gain - with_prompts) * self._step_s(0)
        return plain_s + (entries - 1) * self._chunks_s(each) + self._chunks_s(each + prompt_tokens)

    def _wait(self, departures: int) -> tuple[float, float]:
        """Return the steps until `departures` sequences have left, and in how many of these steps others come in, each
        with a prompt.

        A place that was left at step `due` is taken, and left again every `length` steps, on average. So with the `m`
        soonest of those that decode now, `m + sum(steps - due) / length` have left after `steps`.
        """
        length = max(1.0, self.length * self.wanted / self.waiting) if self.waiting else 1.0
        now, steps, total, places, left = self.steps, 0.0, 0.0, 0, departures * length
        for end in self.ends:
            due = end - now if end > now else 0.0
            if steps <= due and places:
                break
            total += due
            places += 1
            left -= length
            steps = (left + total) / places
            if steps < due:
                steps = due
        apart = len({int(end - now) for end in self.ends[:places]})
        again = max(0, departures - places)
        # Who leaves with others lets all in at once; places that are taken anew are left at random.
        alone = max(0.0, steps - apart) * (1 - exp(-again / max(1.0, steps)))
        return steps, max(1.0, min(departures, apart + alone))

    def _departures(self, prompt_tokens: int) -> int:
        """Return how many sequences must leave before one more has a place and room in the KV cache."""
        over = self.context + self.prompts + prompt_tokens - self.kv_tokens
        for_room = ceil(over / max(1.0, self._mean_context())) if over > 0 else 0
        return max(self.waiting + len(self.ends) + 1 - self.slots, for_room)

    def _chunks_s(self, prompt_tokens: float) -> float:
        """Return the seconds that `prompt_tokens` take, in steps as full as they may be."""
        room = self._room()
        full, rest = divmod(prompt_tokens, room)
        return full * self._step_s(room) + (self._step_s(rest) if rest else 0.0)

    def _room(self) -> int:
        return max(1, self.budget - len(self.ends))

    def _step_s(self, prompt_tokens: float) -> float:
        decoding = len(self.ends)
        if self.beside_s is None:
            context = self._mean_context()
            self.beside_s = self.pace.decode_s(decoding, context), self.pace.reading_s(decoding, context)
        plain_s, reading_s = self.beside_s
        if prompt_tokens <= 0:
            return self.slower[0] * plain_s
        return self.slower[1] * (self.pace.prefill_s(prompt_tokens + decoding) + reading_s)

    def _mean_context(self) -> float:
        return self.context / len(self.ends) if self.ends else 1.0


class Forecast:
    """The queues of all devices. Report requests, first tokens, ends and steps in order, and a step after its
    release."""

    def __init__(self) -> None:
        self._queues: dict[int, DeviceQueue] = {}
        self._open: set[int] = set()
        self._loads: dict[str, ForecastRequest] = {}

    def add(self, device: int, queue: DeviceQueue) -> None:
        """Add a device, or one that returned, with nothing to do."""
        self._queues[device] = queue
        self._open.add(device)

    def close(self, device: int) -> None:
        """Stop forecasting for a device that takes no more requests."""
        self._open.discard(device)

    def predict_ttft_s(self, device: int, prompt_tokens: int, now_s: float) -> float:
        """Emulated seconds from `now_s` until the first token of a request that comes to the device now."""
        return self._queues[device].ttft_s(prompt_tokens, now_s)

    def best(self, devices: Iterable[int], prompt_tokens: int, now_s: float) -> tuple[float, int]:
        """Return the shortest time to first token (s) among `devices`, and the device."""
        return min((self.predict_ttft_s(device, prompt_tokens, now_s), device) for device in devices)

    def token_rate(self, device: int, sequences: int) -> float:
        """Return the tokens per emulated second that each of `sequences` sequences gets from a device at its present
        pace."""
        queue = self._queues.get(device)
        if queue is None:
            return 0.0
        context = queue.context / len(queue.ends) if queue.ends else USUAL_CONTEXT
        step_s = queue.slower[0] * queue.pace.decode_s(min(sequences, queue.slots), context)
        return queue.gain / step_s if step_s > 0 else 0.0

    def set_pace(self, device: int, pace: Pace) -> None:
        """Set the pace of a device whose condition has changed."""
        queue = self._queues[device]
        queue.pace, queue.slower, queue.beside_s = pace, [1.0, 1.0], None

    @property
    def devices(self) -> list[int]:
        """The devices that take requests."""
        return sorted(self._open)

    def on_submit(self, device: int, request: Request, now_s: float) -> None:
        """Queue a request at a device; one begun elsewhere, or moved there, has part of its tokens already."""
        self._forget(request.id)
        queue, load = self._queues[device], ForecastRequest(device, request.prompt_tokens, request.max_tokens)
        self._loads[request.id] = load
        idle = not queue.waiting and not queue.ends
        queue.waiting += 1
        queue.prompts += load.prompt_tokens
        queue.wanted += load.max_tokens
        if request.released:
            self.on_first_token(request.id, request.released)
        if idle:
            queue.begin(now_s)

    def on_first_token(self, request_id: str, released: int = 1) -> None:
        """Record a request's first token, or its first `released` ones."""
        load = self._loads.get(request_id)
        if load is None or load.end is not None:
            return
        queue = self._queues[load.device]
        queue.waiting -= 1
        queue.prompts -= load.prompt_tokens
        queue.wanted -= load.max_tokens
        queue.finished += load.prompt_tokens
        queue.context += load.prompt_tokens + released
        load.first = queue.steps - released
        load.end = load.first + max(1.0, queue.length * load.max_tokens)
        insort(queue.ends, load.end)
        queue.beside_s = None

    def on_finish(self, request_id: str, made: int) -> None:
        """Remove a request, which ended with `made` tokens; ignore an unknown one."""
        load = self._forget(request_id)
        if load is not None and load.end is not None:
            queue = self._queues[load.device]
            queue.length += REQUESTS * (made / load.max_tokens - queue.length)

    def on_release(self, chunks: Iterable[Chunk], record: StepRecord | None) -> None:
        """Record a device's released tokens: those of a step, if there is a record."""
        for chunk in chunks:
            if chunk.first == 0:
                self.on_first_token(chunk.request_id)
            if chunk.finish is not None:
                self.on_finish(chunk.request_id, chunk.first + len(chunk.tokens))
        if record is not None:
            self.on_step(record)

    def _forget(self, request_id: str) -> ForecastRequest | None:
        load = self._loads.pop(request_id, None)
        if load is None:
            return None
        queue = self._queues[load.device]
        if load.end is None:
            queue.waiting -= 1
            queue.prompts -= load.prompt_tokens
            queue.wanted -= load.max_tokens
            queue.computed = min(queue.computed, queue.prompts)
        else:
            del queue.ends[bisect_left(queue.ends, load.end)]
            queue.beside_s = None
            left = queue.context - load.prompt_tokens - (queue.steps - load.first)
            queue.context = max(0.0, left) if queue.ends else 0.0
        if not queue.waiting and not queue.ends:
            # What was learned was of that crowd. Kept, it could turn everybody away from a device with nothing to do,
            # which then makes no step that would teach it better.
            queue.slower = [1.0, 1.0]
        return load

    def on_step(self, record: StepRecord) -> None:
        """Record a step of a device, after its release."""
        queue = self._queues[record.device]
        queue.learn(record)
        queue.begin(record.start_s + record.latency_s)
