"""Continuous batching: which sequences the device's next step computes, and how much of each."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from serving.flow import NEVER, Batch, Done, Request
from serving.kv_cache import KvCache
from serving.policies.fairness import FairQueue
from serving.policies.waiting import Line
from serving.rules import DECODE_FIRST, MIXED, SPILL, Limits, Rules
from serving.sequence import Sequence

# Costs are asked for this many steps at a time: enough to make the question rare, few enough to stay a small answer.
MAX_HORIZON = 256


@dataclass(slots=True)
class Step:
    """A step while it is composed: tokens by sequence, who began, and what is left to give out."""

    tokens: int
    prompt_tokens: int
    new_tokens: dict[str, int] = field(default_factory=dict)
    started: list[str] = field(default_factory=list)
    preemptions: int = 0
    spilled: int = 0
    fetched: int = 0
    queried: int = 0
    cached: int = 0

    def grant(self, wanted: int, decodes: bool) -> int:
        """How many of the tokens that a sequence would compute it may."""
        return min(wanted, self.tokens) if decodes else min(wanted, self.tokens, self.prompt_tokens)

    def take(self, id: str, new: int, decodes: bool) -> None:
        """A sequence computes `new` tokens."""
        self.new_tokens[id] = new
        self.tokens -= new
        self.prompt_tokens -= 0 if decodes else new


class Scheduler:
    """Decides by `rules` within `limits`. `plan` is the whole conversation: the device tells what it did since, and is
    told what to do next."""

    def __init__(self, limits: Limits, rules: Rules | None = None) -> None:
        self.limits, self.rules = limits, rules or Rules()
        # Nothing is planned beyond: whoever submits in virtual time has not come further yet.
        self.until_s = NEVER
        self.running: dict[str, Sequence] = {}
        self.kv = KvCache(limits.kv_capacity_tokens, limits.block_tokens)
        self._waiting: dict[str, Sequence] = {}
        # Not here yet: stamped for an instant that the device has not come to.
        self._coming = Line(lambda request: request.arrival_s)
        self._queue = self.rules.queue()
        self._fair = self._queue if isinstance(self._queue, FairQueue) else None
        self._topics: Counter[str] = Counter()
        self._batch: Batch | None = None
        self._order = 0
        self._fresh: set[str] = set()
        self._spilled = 0

    def submit(self, request: Request) -> None:
        """Take a request on."""
        self._waiting[request.id] = Sequence.of(request)
        self._coming.push(request)
        self._fresh.add(request.id)

    def abort(self, request_id: str) -> None:
        """Forget a request; one that is unknown was finished already."""
        if sequence := self.running.get(request_id):
            self._leave(sequence)
        elif sequence := self._waiting.pop(request_id, None):
            self._spilled -= sequence.kept if sequence.spilled else 0
            (self._coming if sequence.request in self._coming else self._queue).remove(sequence.request)

    def limit(self, limits: Limits) -> None:
        """Have other limits from the next step on: sequences that the KV cache has no room for are preempted."""
        self.limits = limits
        self.kv.resize(limits.kv_capacity_tokens)

    def plan(self, at: float, now: float, last: float, done: Done) -> Batch:
        """The batch from emulated instant `at` on, after what was `done` of the last one, whose last step began at
        `last`. `now` is the clock's reading: an idle device may begin at an arrival between `at` and `now`.
        """
        self._advance(done)
        if not self.running and not len(self._queue) and (first := self._coming.due(now)):
            at = max(at, first.arrival_s)
        self._arrive(at)
        step = self._compose(at)
        slips = self._count_slips(step.started, last)
        self._batch = self._describe(at, step, slips)
        return self._batch

    @property
    def kv_tokens(self) -> int:
        """Tokens that the blocks in use have room for."""
        return self.kv.used * self.kv.block_tokens

    def _arrive(self, at: float) -> None:
        while request := self._coming.due(at):
            self._coming.remove(request)
            self._queue.push(request)

    def _advance(self, done: Done) -> None:
        batch, self._batch = self._batch, None
        if batch is not None and done.steps:
            accepted = done.accepted or [0] * len(batch.ids)
            for id, new, emits, more in zip(batch.ids, batch.new_tokens, batch.emits, accepted, strict=True):
                if sequence := self.running.get(id):
                    self._carry_on(sequence, new * done.steps + more, (done.steps + more) if emits else 0)
        for id in done.finished:
            self.abort(id)

    def _carry_on(self, sequence: Sequence, new: int, emitted: int) -> None:
        prefilled = sequence.length - sequence.computed > 1
        sequence.advance(new, emitted)
        if self._fair is not None and emitted:
            self._fair.serve(sequence.request, emitted)
        if sequence.remaining <= 0:
            self._leave(sequence)
        elif prefilled and self.rules.prefix_caching:
            self.kv.publish(sequence.held, sequence.request.blocks, sequence.computed)

    def _compose(self, at: float) -> Step:
        """The next step, by the prefill policy."""
        most = self.limits.max_num_batched_tokens
        step = Step(most, min(most, self.rules.prefill_chunk or most))
        running = list(self.running.values())
        if self.rules.prefill == MIXED:
            self._go_on(step, running)
            self._admit(at, step)
            return step
        self._go_on(step, [sequence for sequence in running if not sequence.decodes])
        if self.rules.prefill != DECODE_FIRST or not any(sequence.decoded for sequence in running):
            self._admit(at, step)
        if not step.new_tokens:
            self._go_on(step, running)
        return step

    def _go_on(self, step: Step, sequences: Iterable[Sequence]) -> None:
        """Those that run already, in the order in which they were let in, as far as there is room in the KV cache."""
        ahead = self.rules.lookahead
        for sequence in sequences:
            left, wanted = sequence.length - sequence.computed, sequence.computed + 1 + ahead
            if left == 1 and step.tokens > 0 and wanted <= sequence.room:  # what nearly all do, nearly always
                step.new_tokens[sequence.id] = 1
                step.tokens -= 1
                continue
            new = step.grant(left, sequence.decodes)
            if new > 0 and self._find_room(sequence, sequence.computed + new + ahead, step):
                step.take(sequence.id, new, sequence.decodes)

    def _find_room(self, sequence: Sequence, tokens: int, step: Step) -> bool:
        """Give a sequence room for so many tokens, if need be at the expense of others; False if it must leave itself.
        One that is alone has it in any case."""
        while sequence.id in self.running and len(self.running) > 1 and self._lacks(sequence, tokens):
            self._preempt(step)
        if sequence.id not in self.running:
            return False
        self._grow(sequence, tokens)
        return True

    def _lacks(self, sequence: Sequence, tokens: int) -> bool:
        return self.kv.blocks(tokens) - sequence.held.blocks > max(self.kv.free, 0)

    def _grow(self, sequence: Sequence, tokens: int) -> None:
        self.kv.grow(sequence.held, tokens)
        sequence.room = sequence.held.blocks * self.kv.block_tokens

    def _admit(self, at: float, step: Step) -> None:
        """Those that wait, in the order of the batching policy, up to the first that there is no room for."""
        while not step.preemptions and len(self.running) < self.limits.max_num_seqs:
            request = self._queue.first(at, self._topics)
            if request is None or not self._begin(self._waiting[request.id], step):
                break

    def _begin(self, sequence: Sequence, step: Step) -> bool:
        """Let one in, if the whole of it fits, not just its next chunk: else it would be thrown out again half-way."""
        request, size = sequence.request, self.kv.block_tokens
        # Of a prompt that is known to its end, the last token is computed all the same: it brings the next one.
        whole = request.blocks[: (sequence.length - 1) // size] if self.rules.prefix_caching else []
        hashes = whole[: self.kv.known(whole)]
        start = max(len(hashes) * size, sequence.kept)
        decodes = start > 0 and sequence.length - start == 1
        new = step.grant(sequence.length - start, decodes)
        wanted = sequence.length + self.rules.lookahead
        if new <= 0 or (self.kv.needed(wanted, hashes) > self.kv.free and self.running):
            return False
        step.queried += sequence.length if self.rules.prefix_caching and not sequence.kept else 0
        step.cached += start if not sequence.kept else 0
        if sequence.spilled:
            step.fetched += sequence.kept
            self._spilled -= sequence.kept
        sequence.held = self.kv.share(hashes)
        self._grow(sequence, wanted)
        sequence.computed, sequence.kept, sequence.spilled, sequence.decoded = start, 0, False, 0
        self._enter(sequence, sequence.length - start)
        step.take(request.id, new, decodes)
        step.started.append(request.id)
        return True

    def _enter(self, sequence: Sequence, to_compute: int) -> None:
        request = sequence.request
        self._queue.remove(request)
        if self._fair is not None:
            self._fair.begin(request, to_compute)
        del self._waiting[request.id]
        self._order += 1
        sequence.order = self._order
        self.running[request.id] = sequence
        self._topics[request.topic] += 1

    def _leave(self, sequence: Sequence) -> None:
        request = sequence.request
        if self._fair is not None:
            self._fair.end(request)
        del self.running[request.id]
        self._topics[request.topic] -= 1
        self.kv.release(sequence.held)
        sequence.room = 0

    def _preempt(self, step: Step) -> None:
        """Back to the queue with the least urgent of those that are not in this step yet, and of these the last."""
        candidates = [each for id, each in self.running.items() if id not in step.new_tokens]
        victim = max(candidates, key=lambda each: (each.request.priority, each.order))
        self._leave(victim)
        spill = self.rules.preemption == SPILL and self._spilled + victim.computed <= self.limits.spill_tokens
        victim.kept, victim.spilled = (victim.computed, victim.computed > 0) if spill else (0, False)
        if spill:
            self._spilled += victim.computed
            step.spilled += victim.computed
        victim.computed = 0
        self._waiting[victim.request.id] = victim
        self._queue.push(victim.request)
        step.preemptions += 1

    def _count_slips(self, started: list[str], last: float) -> int:
        """Arrivals that would have made the step before this one, had the news of them been here in time."""
        slips = sum(self.running[id].request.arrival_s <= last for id in started if id in self._fresh)
        self._fresh.clear()
        return slips

    def _describe(self, at: float, step: Step, slips: int) -> Batch:
        coming = self._coming.first()
        new_tokens = step.new_tokens
        sequences = [self.running[id] for id in new_tokens]
        lengths = zip(sequences, new_tokens.values(), strict=True)
        return Batch(
            ids=list(new_tokens),
            new_tokens=list(new_tokens.values()),
            context=[each.computed for each in sequences],
            emits=[each.computed + new >= each.length for each, new in lengths],
            start_s=at,
            seeds=[each.request.seed for each in sequences],
            released=[each.released for each in sequences],
            remaining=[each.remaining for each in sequences],
            topics=[each.request.topic for each in sequences],
            until_s=min(self.until_s, coming.arrival_s if coming else NEVER, self._queue.wakes_s(at)),
            horizon=self._horizon(sequences),
            started=step.started,
            waiting=len(self._queue),
            kv_tokens=self.kv_tokens,
            preemptions=step.preemptions,
            spilled_tokens=step.spilled,
            fetched_tokens=step.fetched,
            queried_tokens=step.queried,
            cached_tokens=step.cached,
            slips=slips,
        )

    def _horizon(self, sequences: list[Sequence]) -> int:
        """Steps for which this batch holds: a decoding one until its first sequence ends or the KV cache is full."""
        if (
            not sequences
            or len(sequences) < len(self.running)
            or any(each.length - each.computed != 1 for each in sequences)
        ):
            return 1
        in_hand = min([each.room - each.computed for each in sequences])
        room = in_hand + self.kv.free // len(sequences) * self.kv.block_tokens - self.rules.lookahead
        return max(1, min(MAX_HORIZON, room, *[each.remaining for each in sequences]))
