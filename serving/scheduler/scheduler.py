"""Continuous batching: chooses the sequences of a device's next step, and how much of each to compute."""

from collections import Counter
from collections.abc import Iterable

from serving.policies.fairness import FairQueue
from serving.scheduler.arrivals import Arrivals
from serving.scheduler.config import DECODE_FIRST, MIXED, SPILL, Limits, SchedulerRules, most_prompt_tokens, prefill_s
from serving.scheduler.decode_group import DecodeGroup
from serving.scheduler.kv_cache import KvCache
from serving.scheduler.outlook import AnswerShare, outlook
from serving.scheduler.sequence import Sequence
from serving.scheduler.shared_blocks import SharedBlocks
from serving.scheduler.step import Step, columns, horizon
from serving.types import NEVER, Batch, Done, Request


class Scheduler:
    """Plans by `rules` within `limits`. Each `plan` takes what the device did since the last one, and returns a
    batch."""

    def __init__(self, limits: Limits, rules: SchedulerRules | None = None) -> None:
        self.limits, self.rules = limits, rules or SchedulerRules()
        # Nothing is planned beyond: whoever submits in virtual time has not come further yet.
        self.until_s = NEVER
        self.running: dict[str, Sequence] = {}
        self.kv = KvCache(limits.kv_capacity_tokens, limits.block_tokens)
        self._shared = SharedBlocks(self.kv, self.rules.kv_events)
        # Of those that run: who decodes in step with others, and behind these, who goes on alone.
        self._together = DecodeGroup(limits.block_tokens, self.rules.lookahead)
        self._apart: dict[str, Sequence] = {}
        self.waiting: dict[str, Sequence] = {}
        self._coming = Arrivals()
        self._queue = self.rules.queue(lambda tokens: prefill_s(self.limits, self.rules, tokens))
        self._fair = self._queue if isinstance(self._queue, FairQueue) else None
        self._topics: Counter[str] = Counter()
        self._batch: Batch | None = None
        self._step, self._answers = Step(0, 0), AnswerShare()
        self._order = self._spilled = 0

    def submit(self, request: Request, in_time: bool = False) -> None:
        """Queue a request. Unless `in_time`, the news of it may be late: then a step that it missed is counted."""
        self.waiting[request.id] = Sequence.of(request)
        self._coming.add(request, in_time)

    @property
    def full(self) -> bool:
        """Tell whether `max_num_seqs` sequences run."""
        return len(self.running) >= self.limits.max_num_seqs

    def abort(self, request_id: str) -> None:
        """Drop a request; ignore an unknown one, which has finished already."""
        if sequence := self.running.get(request_id):
            self._leave(sequence)
        elif sequence := self.waiting.pop(request_id, None):
            self._spilled -= sequence.kept if sequence.spilled else 0
            (self._coming if sequence.request in self._coming else self._queue).remove(sequence.request)

    def limit(self, limits: Limits) -> None:
        """Set the limits from the next step on; sequences beyond the KV cache's new room are preempted. Who waits keeps
        the place in the queue that a prompt's seconds had until now given it."""
        self.limits = limits
        self.kv.resize(limits.kv_capacity_tokens)

    def flush(self) -> bool:
        """Empty the prefix cache, unless sequences run. Return whether it is empty now."""
        return self._shared.flush()

    def remember(self, request: Request) -> None:
        """Find an ended request's answer again in prompts to come: its `blocks` go on to the end of that now."""
        if sequence := self.running.get(request.id):
            sequence.request = request
        else:
            self._shared.name(request)

    def plan(self, at_s: float, now_s: float, last_s: float, done: Done) -> Batch:
        """Return the batch from `at_s` on, given what was `done` since; the last step began at `last_s`. An idle device
        may begin at an arrival up to `now_s`, the clock's reading, and with a request of a device that is gone, now."""
        self._advance(done)
        if not self.running and not len(self._queue) and (first := self._coming.due(now_s)):
            at_s = max(at_s, now_s if first.kv_lost else first.arrival_s)
        ahead = self.rules.schedules_ahead and bool(self.running)
        for request in self._coming.until(last_s if ahead else at_s):
            self._queue.push(request)
        step = self._compose(at_s)
        started = (self.running[id].request for id in step.started)
        slips = self._coming.slips(started, done.before_s if ahead else last_s)
        self._batch, self._step = self._describe(at_s, step, slips), step
        return self._batch

    def give_up(self, done: Done) -> dict[str, int]:
        """Stop planning, after what was `done` of the last batch; return how many tokens each request has had."""
        self._advance(done)
        self._part()
        return {each.id: each.released for each in (*self.running.values(), *self.waiting.values())}

    def _advance(self, done: Done) -> None:
        batch, self._batch = self._batch, None
        if batch is not None and done.steps:
            if done.accepted:
                self._part()
                self._advance_each(batch.ids, batch, done)
            else:
                if self._step.together:
                    self._advance_together(done.steps)
                self._advance_each(list(self._step.new_tokens), batch, done)
                self._gather()
        for id in done.finished:
            if id not in self.waiting or self.waiting[id].order:  # else it ended before it was sent again
                self.abort(id)

    def _advance_together(self, steps: int) -> None:
        together = self._together
        together.count += steps
        if self._fair is not None:
            for request in together.requests():
                self._fair.serve(request, steps)
        for sequence in together.ended():
            self._leave(sequence)

    def _advance_each(self, ids: list[str], batch: Batch, done: Done) -> None:
        """Advance the batch's sequences `ids`, its last ones, each by what it computed."""
        first = len(batch.ids) - len(ids)
        accepted = done.accepted or [0] * len(ids)
        for id, new, emits, more in zip(ids, batch.new_tokens[first:], batch.emits[first:], accepted, strict=True):
            if sequence := self._apart.get(id):
                self._carry_on(sequence, new * done.steps + more, (done.steps + more) if emits else 0)

    def _carry_on(self, sequence: Sequence, new: int, emitted: int) -> None:
        prefilled = not sequence.decodes
        sequence.advance(new, emitted)
        if self._fair is not None and emitted:
            self._fair.serve(sequence.request, emitted)
        if prefilled and self.rules.prefix_caching:
            self._shared.publish(sequence)
        if sequence.remaining <= 0:
            self._leave(sequence)

    def _gather(self) -> None:
        """Move sequences that decode to the group, up to the first admitted one that still prefills."""
        for sequence in list(self._apart.values()):
            if not sequence.decodes:
                break
            del self._apart[sequence.id]
            self._together.join(sequence)

    def _part(self) -> None:
        """Dissolve the group."""
        if len(self._together):
            self._apart = self._together.part() | self._apart

    def _compose(self, at_s: float) -> Step:
        """Compose the next step by the prefill policy, once who is beyond the KV cache's room has left."""
        step = Step(self.limits.max_num_batched_tokens, most_prompt_tokens(self.limits, self.rules))
        while self.kv.free < 0 and len(self.running) > 1:
            self._preempt(step)
        if self.rules.prefill == MIXED:
            self._go_on_all(step)
            self._admit(at_s, step)
            return step
        self._go_on(step, [sequence for sequence in self._apart.values() if not sequence.decodes])
        if self.rules.prefill != DECODE_FIRST or not self._decoded():
            self._admit(at_s, step)
        if not step.new_tokens:
            self._go_on_all(step)
        return step

    def _decoded(self) -> bool:
        """Tell whether a running sequence has had more than its first token since its admission."""
        return self._together.decoded or any(sequence.decoded for sequence in self._apart.values())

    def _go_on_all(self, step: Step) -> None:
        """Continue all running sequences."""
        together, kv = self._together, self.kv
        if members := len(together):
            wanted = together.wanted()
            if members <= step.tokens and (wanted <= kv.free or len(self.running) == 1):
                together.give()
                kv.take(wanted)
                step.together, step.tokens = members, step.tokens - members
            else:
                self._part()
        self._go_on(step, list(self._apart.values()))

    def _go_on(self, step: Step, sequences: Iterable[Sequence]) -> None:
        """Continue `sequences` outside the group, in order of admission, as far as there is room."""
        ahead = self.rules.lookahead
        for sequence in sequences:
            left, wanted = sequence.length - sequence.computed, sequence.computed + 1 + ahead
            # What nearly all do, nearly always.
            if left == 1 and sequence.released and step.tokens > 0 and wanted <= sequence.room:
                step.new_tokens[sequence.id] = 1
                step.tokens -= 1
                continue
            new = step.grant(left, sequence.decodes)
            if new > 0 and self._find_room(sequence, sequence.computed + new + ahead, step):
                step.take(sequence.id, new, sequence.decodes)

    def _find_room(self, sequence: Sequence, tokens: int, step: Step) -> bool:
        """Make KV room for `tokens`, preempting others; False if it was preempted itself. A lone sequence gets it."""
        blocks, kv = self.kv.blocks(tokens), self.kv
        while sequence.id in self.running and len(self.running) > 1 and blocks - sequence.held.blocks > kv.free:
            self._preempt(step)
        if sequence.id in self.running:
            self._grow(sequence, tokens)
        return sequence.id in self.running

    def _grow(self, sequence: Sequence, tokens: int) -> None:
        self.kv.grow(sequence.held, tokens)
        sequence.room = sequence.held.blocks * self.kv.block_tokens

    def _admit(self, at_s: float, step: Step) -> None:
        """Admit waiting requests in the batching policy's order, up to the first without room."""
        while not step.preempted and len(self.running) < self.limits.max_num_seqs:
            request = self._queue.first(at_s, self._topics)
            if request is None or not self._begin(self.waiting[request.id], step):
                break

    def _begin(self, sequence: Sequence, step: Step) -> bool:
        """Admit a sequence if all of it fits beside what others lack to go on: it would be preempted otherwise."""
        request, size = sequence.request, self.kv.block_tokens
        hashes = self.kv.found(request.blocks, sequence.length) if self.rules.prefix_caching else []
        known = len(hashes) * size
        start = max(known, sequence.kept)
        decodes = sequence.released > 0 and sequence.length - start == 1
        new = step.grant(sequence.length - start, decodes)
        wanted = sequence.length + self.rules.lookahead
        lacking = 0 if self.rules.prefill == MIXED else self._together.wanted(self._apart.values())
        if new <= 0 or (self.running and self.kv.needed(wanted, hashes) > self.kv.free - lacking):
            return False
        found, again = 0 if sequence.kept else start, sequence.kept or sequence.order
        step.queried += sequence.length if self.rules.prefix_caching and not again else 0
        step.cached += 0 if again else found  # As in vLLM, a prompt counts once, however often it is preempted.
        if sequence.spilled:
            step.fetched += start - known  # what the prefix cache still has is there
            self._spilled -= sequence.kept
        sequence.held = self.kv.share(hashes)
        self._grow(sequence, wanted)
        sequence.computed, sequence.kept, sequence.spilled, sequence.decoded = start, 0, False, 0
        self._enter(sequence, sequence.length - start)
        step.begin(request.id, new, decodes, found)
        return True

    def _enter(self, sequence: Sequence, to_compute: int) -> None:
        request = sequence.request
        self._queue.remove(request)
        if self._fair is not None:
            self._fair.begin(request, to_compute)
        del self.waiting[request.id]
        self._order += 1
        sequence.order = self._order
        self.running[request.id] = self._apart[request.id] = sequence
        self._topics[request.topic] += 1

    def _leave(self, sequence: Sequence, ends: bool = True) -> None:
        if self._fair is not None:
            self._fair.end(sequence.request)
        del self.running[sequence.id]
        if self._apart.pop(sequence.id, None) is None:
            self._together.leave(sequence)
        if ends:
            self._answers.note_end(sequence)
        self._topics[sequence.request.topic] -= 1
        self._shared.release(sequence, ends and self.rules.keep_answers)
        sequence.room = 0

    def _preempt(self, step: Step) -> None:
        """Requeue the least urgent sequence outside this step, and of several the one admitted last."""
        candidates = [each for id, each in self._apart.items() if id not in step.new_tokens]
        if not step.together:
            candidates += self._together.members.values()
        victim = max(candidates, key=lambda each: (each.request.priority, each.order))
        # Before it leaves: whoever runs or waits all along has not been idle.
        self._queue.push(victim.request)
        self._leave(victim, ends=False)
        spill = self.rules.preemption == SPILL and self._spilled + victim.computed <= self.limits.spill_tokens
        victim.kept, victim.spilled = (victim.computed, victim.computed > 0) if spill else (0, False)
        self._spilled += victim.kept
        step.spilled += victim.kept
        victim.computed = 0
        self.waiting[victim.request.id] = victim
        step.preempted.append(victim.id)

    def _describe(self, at_s: float, step: Step, slips: int) -> Batch:
        coming = self._coming.first()
        alone = [self.running[id] for id in step.new_tokens]
        kv, queued, running = self.kv, len(self._queue), len(self.running)
        spare = kv.spare(step.together + len(alone)) - self.rules.lookahead
        return Batch(
            *columns(at_s, step, self._together, alone),
            until_s=min(self.until_s, coming.arrival_s if coming else NEVER, self._queue.wakes_s(at_s)),
            horizon=horizon(step, self._together, alone, running, spare),
            waiting=queued,
            kv_tokens=kv.used_tokens,
            slips=slips,
            kv_events=self._shared.news(),
            outlook=outlook(self.limits, self.rules, queued, running, kv, self._answers.share),
            **step.told(),
        )
