"""Continuous batching: which sequences the device's next step computes, and how much of each."""

from bisect import bisect_right, insort
from collections import deque
from dataclasses import dataclass, field

from serving.flow import NEVER, Batch, Done, Request

# Costs are asked for this many steps at a time: enough to make the question rare, few enough to stay a small answer.
MAX_HORIZON = 256


@dataclass(frozen=True, slots=True)
class Limits:
    """What a device takes on: sequences and tokens in one step, and tokens in its KV cache."""

    max_num_seqs: int
    max_num_batched_tokens: int
    kv_capacity_tokens: int


@dataclass(slots=True)
class Sequence:
    """A request in the batch: how many tokens it has (`length`), and how many of them lie in the KV cache."""

    request: Request
    released: int
    computed: int

    @property
    def length(self) -> int:
        return self.request.prompt_tokens + self.released

    @property
    def remaining(self) -> int:
        return self.request.max_tokens - self.released


@dataclass(slots=True)
class Scheduler:
    """First come, first served, with chunked prefill: running sequences first, then the waiting, up to `limits`.

    `plan` is the whole conversation: the device tells what it did since, and is told what to do next.
    """

    limits: Limits
    waiting: list[tuple[float, int, Sequence]] = field(default_factory=list)
    running: dict[str, Sequence] = field(default_factory=dict)
    _batch: Batch | None = None
    _order: int = 0
    _fresh: set[str] = field(default_factory=set)
    _preemptions: int = 0

    def submit(self, request: Request) -> None:
        """Take a request on. One that was begun before goes on where it was, its KV cache intact if it is not lost."""
        intact = request.released and not request.kv_lost
        computed = request.prompt_tokens + request.released - 1 if intact else 0
        self._wait(Sequence(request, request.released, computed))
        self._fresh.add(request.id)

    def abort(self, request_id: str) -> None:
        """Forget a request; one that is unknown was finished already."""
        if self.running.pop(request_id, None) is None:
            self.waiting = [entry for entry in self.waiting if entry[2].request.id != request_id]

    def plan(self, at: float, now: float, last: float, done: Done) -> Batch:
        """The batch from emulated instant `at` on, after what was `done` of the last one, whose last step began at
        `last`. `now` is the clock's reading: an idle device may begin at an arrival between `at` and `now`.
        """
        self._advance(done)
        if not self.running and self.waiting:
            first = self.waiting[0][0]
            at = max(at, first) if first <= now else at
        self._preemptions = 0
        new_tokens, started = self._compose(at)
        slips = self._count_slips(started, last)
        self._batch = self._describe(at, new_tokens, started, slips)
        return self._batch

    def _wait(self, sequence: Sequence) -> None:
        self._order += 1
        insort(self.waiting, (sequence.request.arrival_s, self._order, sequence))

    def _advance(self, done: Done) -> None:
        batch, self._batch = self._batch, None
        if batch is not None and done.steps:
            accepted = done.accepted or [0] * len(batch.ids)
            for id, new, emits, more in zip(batch.ids, batch.new_tokens, batch.emits, accepted, strict=True):
                if sequence := self.running.get(id):
                    sequence.computed += new * done.steps + more
                    sequence.released += done.steps + more if emits else 0
                    if sequence.remaining <= 0:
                        del self.running[id]
        for id in done.finished:
            self.abort(id)

    def _compose(self, at: float) -> tuple[dict[str, int], list[str]]:
        """New tokens by sequence, and those that begin now."""
        budget = self.limits.max_num_batched_tokens
        free = self.limits.kv_capacity_tokens - self.kv_tokens
        new_tokens: dict[str, int] = {}
        queue = deque(self.running)
        while queue and budget > 0:
            id = queue.popleft()
            sequence = self.running[id]
            new = min(sequence.length - sequence.computed, budget)
            while new > free and queue:
                free += self._preempt(queue.pop())
            if new > free:
                free += self._preempt(id)
                break
            new_tokens[id], budget, free = new, budget - new, free - new
        started = [] if self._preemptions else self._admit(at, budget, free, new_tokens)
        return new_tokens, started

    def _admit(self, at: float, budget: int, free: int, new_tokens: dict[str, int]) -> list[str]:
        started = []
        while self.waiting and self.waiting[0][0] <= at and len(self.running) < self.limits.max_num_seqs:
            sequence = self.waiting[0][2]
            new = min(sequence.length - sequence.computed, budget)
            # The whole of it must fit, not just this chunk: else it would be thrown out again half-way.
            if new <= 0 or sequence.length > free:
                break
            self.waiting.pop(0)
            id = sequence.request.id
            self.running[id] = sequence
            new_tokens[id], budget, free = new, budget - new, free - sequence.length
            started.append(id)
        return started

    def _preempt(self, id: str) -> int:
        """Back to the queue, to be recomputed; the tokens of KV cache that this frees."""
        sequence = self.running.pop(id)
        freed, sequence.computed = sequence.computed, 0
        self._wait(sequence)
        self._preemptions += 1
        return freed

    def _count_slips(self, started: list[str], last: float) -> int:
        """Arrivals that would have made the step before this one, had the news of them been here in time."""
        slips = sum(self.running[id].request.arrival_s <= last for id in started if id in self._fresh)
        self._fresh.clear()
        return slips

    def _describe(self, at: float, new_tokens: dict[str, int], started: list[str], slips: int) -> Batch:
        due = bisect_right(self.waiting, at, key=lambda entry: entry[0])
        sequences = [self.running[id] for id in new_tokens]
        context = [s.computed for s in sequences]
        emits = [s.computed + new >= s.length for s, new in zip(sequences, new_tokens.values(), strict=True)]
        return Batch(
            ids=list(new_tokens),
            new_tokens=list(new_tokens.values()),
            context=context,
            emits=emits,
            start_s=at,
            seeds=[s.request.seed for s in sequences],
            released=[s.released for s in sequences],
            remaining=[s.remaining for s in sequences],
            until_s=self.waiting[due][0] if due < len(self.waiting) else NEVER,
            horizon=self._horizon(sequences, new_tokens),
            started=started,
            waiting=due,
            kv_tokens=self.kv_tokens,
            preemptions=self._preemptions,
            slips=slips,
        )

    def _horizon(self, sequences: list[Sequence], new_tokens: dict[str, int]) -> int:
        """Steps for which this batch holds: a decoding one until its first sequence ends or the KV cache is full."""
        if len(sequences) < len(self.running) or any(s.length - s.computed != 1 for s in sequences):
            return 1
        room = (self.limits.kv_capacity_tokens - self.kv_tokens) // max(len(sequences), 1)
        return max(1, min(MAX_HORIZON, room, *(s.remaining for s in sequences)) if sequences else 1)

    @property
    def kv_tokens(self) -> int:
        """Tokens in the KV cache."""
        return sum(s.computed for s in self.running.values())
