"""A workload that runs: the requests that begin sessions, and what follows when one has ended."""

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from math import inf

import numpy as np
from numpy.typing import NDArray

from serving.workload.arrivals import ClosedLoop
from serving.workload.ask import ASSISTANT, CALL, OFFER, SYSTEM, TOOL, USER, Ask, Segment
from serving.workload.plans import Columns, Plan, chunks
from serving.workload.seeded_chance import mix, named, segment_id, segment_ids
from serving.workload.spec import Workload
from serving.workload.tools import prompt_tokens
from serving.workload.traces.rows import TraceRow

# A user whose request failed goes on so many (live: real) seconds later: a server that is down is not to be hammered.
AFTER_FAILURE_S = 1.0
Values = NDArray[np.float64]
Labels = tuple[str, str, str]


class Source:
    """A workload, from its beginning to its end, once.

    Iterating gives the requests that wait for no other, in the order of their arrival. Whoever serves them says when
    one has ended, and is told what comes next because of it. What a request is follows from the seed alone, and when
    it arrives too, but for what waits for others.
    """

    def __init__(self, workload: Workload, seed: int | None = None) -> None:
        self._workload = workload
        self.seed = workload.seed if seed is None else seed
        self._salt = named(self.seed, "said")
        self._until_s = inf if workload.duration_s is None else workload.duration_s
        self._left = inf if workload.requests is None else workload.requests
        agents = workload.agents
        self._offer = (Segment(named("tools", agents.tools), prompt_tokens(agents.tools), OFFER),) if agents else ()
        self._systems: dict[str, tuple[Segment, ...]] = {}
        self._open: dict[int, _Session] = {}
        self._chunks = chunks(workload, self.seed)
        if workload.trace is not None:
            # What is wrong with a trace is told now, if it is in its beginning.
            self._chunks = chain(list(islice(self._chunks, 1)), self._chunks)
        self._plans = self._all_plans()

    @property
    def tools(self) -> int:
        """Return the number of tools that agents are offered; 0 without agents."""
        return self._workload.agents.tools if self._workload.agents else 0

    def __iter__(self) -> Iterator[Ask]:
        """Return the requests that wait for no other: of an open loop all first turns, else the first of each user."""
        return self._users() if isinstance(self._workload.arrivals, ClosedLoop) else self._arriving()

    def next_after(self, ended: Ask, at_s: float) -> Ask | None:
        """Return the request that follows one that ended (or failed) at `at_s`: the session's next turn, or in a closed
        loop the user's next session; None if there is none. It arrives at `at_s` or later."""
        session = self._open.pop(ended.session, None)
        if session is not None:
            return self._timely(session.turns[session.turn].think_s + at_s, session)
        return self._begin_next(at_s) if isinstance(self._workload.arrivals, ClosedLoop) else None

    def _users(self) -> Iterator[Ask]:
        closed = self._workload.arrivals
        assert isinstance(closed, ClosedLoop)
        for at_s in closed.first_s():
            if (ask := self._begin_next(at_s, first=True)) is not None:
                yield ask

    def _begin_next(self, at_s: float, first: bool = False) -> Ask | None:
        if (plan := next(self._plans, None)) is None:
            return None
        due_s = at_s if first else at_s + plan.pause_s
        labels = self._labels([np.array([draw]) for draw in plan.drawn], np.array([due_s]))
        return self._timely(due_s, self._session(plan, (labels[0][0], labels[1][0], labels[2][0])))

    def _arriving(self) -> Iterator[Ask]:
        for at_s, columns in self._chunks:
            within = at_s[: np.searchsorted(at_s, self._until_s)]
            labels = self._labels([draws[: len(within)] for draws in columns.drawn], within)
            if columns.single and not self._workload.system:
                yield from self._singly(within, columns, labels)
            else:
                plans = self._counted(columns.plans(self._most_tokens))
                for due_s, plan, *own in zip(within.tolist(), plans, *labels, strict=False):
                    ask = self._timely(due_s, self._session(plan, (own[0], own[1], own[2])))
                    assert ask is not None
                    yield ask
            if self._left <= 0 or len(within) < len(at_s):
                return

    def _singly(self, at_s: Values, columns: Columns, labels: Sequence[list[str]]) -> Iterator[Ask]:
        """Yield what `_arriving` yields for sessions of one turn, faster."""
        count = int(min(len(at_s), self._left))
        self._left -= count
        numbers = np.arange(columns.first, columns.first + count)
        each = zip(
            numbers.tolist(),
            segment_ids(self._salt, numbers),
            at_s[:count].tolist(),
            columns.prompt,
            columns.output,
            *labels,
            strict=False,
        )
        for number, id, due_s, prompt, output, topic, slo, key in each:
            yield Ask(number, 0, due_s, (Segment(id, prompt, "user", topic),), output, topic, slo, key)

    def _all_plans(self) -> Iterator[Plan]:
        for _, columns in self._chunks:
            yield from self._counted(columns.plans(self._most_tokens))
            if self._left <= 0:
                return

    def _counted(self, plans: Iterator[Plan]) -> Iterator[Plan]:
        """Yield plans until the number of requests is reached."""
        for plan in plans:
            if self._left < len(plan.turns):
                plan = plan._replace(turns=plan.turns[: int(self._left)])
            self._left -= len(plan.turns)
            if not plan.turns:
                return
            yield plan

    def _timely(self, due_s: float, session: "_Session") -> Ask | None:
        """Return the session's next request, unless the workload has ended by then."""
        if due_s >= self._until_s:
            return None
        ask = session.ask(due_s)
        if session.turn < len(session.turns):
            self._open[ask.session] = session
        return ask

    def _labels(self, drawn: Sequence[Values], at_s: Values) -> list[list[str]]:
        shares = (self._workload.topics, self._workload.slo, self._workload.keys)
        return [share.pick(draws, at_s) for share, draws in zip(shares, drawn, strict=True)]

    def _session(self, plan: Plan, labels: Labels) -> "_Session":
        row = plan.row
        if row is not None:
            labels = (row.topic or labels[0], row.slo or labels[1], row.key or labels[2])
        blocks = _blocks(row, named(self.seed, "trace", plan.round)) if row is not None and row.hash_ids else ()
        return _Session(plan, labels, self._salt, self._offer + self._system(labels), blocks)

    @property
    def _most_tokens(self) -> int:
        """Return the tokens left for a session's turns, of its limit (0: no limit)."""
        most, system = self._workload.sessions.max_tokens, self._workload.system
        first = sum(segment.tokens for segment in self._offer) + (system.tokens if system else 0)
        return max(1, most - first) if most else most

    def _system(self, labels: Labels) -> tuple[Segment, ...]:
        system = self._workload.system
        if system is None:
            return ()
        topic, _, key = labels
        of = {"workload": "", "topic": topic, "key": key}[system.per]
        if of not in self._systems:
            id = named(self.seed, SYSTEM, of)
            self._systems[of] = (Segment(id, system.tokens, SYSTEM, topic if system.per == "topic" else ""),)
        return self._systems[of]


class _Session:
    """A session that goes on: `said` is what the next prompt begins with, `turn` the next turn."""

    __slots__ = ("_blocks", "_labels", "_number", "_said", "_salt", "turn", "turns")

    def __init__(
        self, plan: Plan, labels: Labels, salt: int, said: tuple[Segment, ...], blocks: tuple[Segment, ...]
    ) -> None:
        self._number, self.turns, self._labels, self._salt = plan.number, plan.turns, labels, salt
        self._said, self._blocks = said, blocks
        self.turn = 0

    def ask(self, at_s: float) -> Ask:
        """Return the request of the next turn, and go on to the turn after it."""
        number, turn, topic = self._number, self.turn, self._labels[0]
        prompt, output, _, by_user, calls = self.turns[turn]
        role, about = (USER, topic) if by_user else (TOOL, "")
        said = self._blocks or (Segment(segment_id(self._salt, number, turn), prompt, role, about),)
        whole = self._said + said
        id = segment_id(self._salt, number, turn, reply=True)
        reply = Segment(id, output, CALL) if calls else Segment(id, output, ASSISTANT, topic)
        self._said, self.turn = (*whole, reply), turn + 1
        return Ask(number, turn, at_s, whole, output, *self._labels, calls)


def _blocks(row: TraceRow, salt: int) -> tuple[Segment, ...]:
    """Return the prompt of a row, block by block; what has no id is the row's own."""
    ((tokens, _),) = row.turns
    size, segments = row.block_tokens, []
    for place, id in enumerate(row.hash_ids):
        if (left := tokens - place * size) > 0:
            segments.append(Segment(mix((id ^ salt) & 2**64 - 1), min(size, left)))
    if (left := tokens - len(row.hash_ids) * size) > 0:
        segments.append(Segment(named(salt, row.line), left))
    return tuple(segments)
