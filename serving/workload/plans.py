"""Plans of sessions, drawn or read from a trace in bulk, before their begins are known."""

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from serving.workload.agents import AgentDraws
from serving.workload.arrivals import CHUNK, OpenLoop
from serving.workload.distributions import MOST_TURNS
from serving.workload.seeded_chance import stream
from serving.workload.spec import Workload
from serving.workload.table import WorkloadError
from serving.workload.traces.rows import TraceRow

Values = NDArray[np.float64]
FEW = 64  # Sessions that are drawn first; CHUNK is this times a power of 2.
TimedRow = tuple[float, int, TraceRow]  # Its instant (NaN: not known yet), its round, and itself.
LABELS = ("topics", "slo", "keys")


class Turn(NamedTuple):
    """A user's turn: prompt and wanted output in tokens, `think_s` after the turn before has ended.

    An agent's turn is several requests: all but the first begin with what a tool tells (`by_user` is false), and all
    but the last end with a call of one (`calls`).
    """

    prompt: int
    output: int
    think_s: float
    by_user: bool = True
    calls: bool = False


class Plan(NamedTuple):
    """A session; `drawn` are the draws for its labels, and it begins `pause_s` after its user's last one, in a closed
    loop. `row` is of a trace, in its `round`-th replay."""

    number: int
    turns: list[Turn]
    pause_s: float
    drawn: tuple[float, ...]
    round: int = 0
    row: TraceRow | None = None


class Columns(NamedTuple):
    """Sessions from number `first` on: `turns` and `pause_s` [n] of each; `prompt`, `output`, `think_s` by turn; and
    draws [n] for each of LABELS."""

    first: int
    turns: list[int]
    pause_s: list[float]
    prompt: list[int]
    output: list[int]
    think_s: list[float]
    drawn: tuple[Values, ...]
    rows: list[tuple[int, TraceRow]] | None = None
    agents: tuple[list[bool], list[bool]] | None = None  # By turn, of agents: `by_user`, and `calls`.

    @property
    def single(self) -> bool:
        """Tell whether each session is one turn, described by two lengths."""
        return self.rows is None and self.agents is None and len(self.turns) == len(self.prompt)

    def plans(self, max_tokens: int) -> Iterator[Plan]:
        """Yield the plans one by one; `max_tokens` limits a session's total, except for its first turn (0: no
        limit)."""
        flat = zip(self.prompt, self.output, self.think_s, *(self.agents or ()), strict=True)
        drawn = zip(*(draws.tolist() for draws in self.drawn), strict=True)
        rows = iter(self.rows or [])
        each = zip(self.turns, self.pause_s, drawn, strict=True)
        for number, (turns, pause_s, draws) in enumerate(each, self.first):
            listed = [Turn(*turn) for turn in islice(flat, turns)]
            yield Plan(number, _fitting(listed, max_tokens), pause_s, draws, *next(rows, (0, None)))


def chunks(workload: Workload, seed: int) -> Iterator[tuple[Values, Columns]]:
    """Yield chunks of the instants at which sessions begin (NaN in a closed loop: not known yet) and their plans."""
    if workload.trace is not None:
        yield from _traced(workload, seed)
        return
    drawn = _drawn(workload, seed)
    for at_s in _times(workload, seed):
        while len(at_s):
            columns = next(drawn)
            count = len(columns.turns)
            yield at_s[:count], columns
            at_s = at_s[count:]


def _times(workload: Workload, seed: int) -> Iterator[Values]:
    if isinstance(workload.arrivals, OpenLoop):
        yield from workload.arrivals.times(stream(seed, "arrivals"))
    while not isinstance(workload.arrivals, OpenLoop):
        yield np.full(CHUNK, np.nan)


def _drawn(workload: Workload, seed: int) -> Iterator[Columns]:
    rng = {name: stream(seed, name) for name in ("turns", "prompt", "output")}
    first, rest = 0, _Rest(workload, seed)
    agents = AgentDraws(workload.agents, seed) if workload.agents else None
    while True:
        # Few at first: they may be of thousands of turns each, and a short run needs no more.
        count = min(max(FEW, first), CHUNK)
        turns = workload.sessions.turns.whole(rng["turns"], count, MOST_TURNS)
        total = int(turns.sum())
        prompt, output = workload.prompt.whole(rng["prompt"], total), workload.output.whole(rng["output"], total)
        pause_s, think_s, drawn = rest.draw(count, total)
        if agents is None:
            yield Columns(first, turns.tolist(), pause_s, prompt.tolist(), output.tolist(), think_s.tolist(), drawn)
        else:
            requests, made = agents.requests(turns, prompt, output, think_s)
            columns = Columns(first, requests.tolist(), pause_s, made.prompt, made.output, made.after_s, drawn)
            yield columns._replace(agents=(made.begins, [not ends for ends in made.ends]))
        first += count


def _traced(workload: Workload, seed: int) -> Iterator[tuple[Values, Columns]]:
    assert workload.trace is not None
    own = workload.arrivals is None
    rows = workload.trace.timed() if own else ((np.nan, *each) for each in workload.trace.untimed())
    times = None if own else _times(workload, seed)
    first, rest = 0, _Rest(workload, seed)
    for chunk in _in_chunks(rows):
        turns = [len(row.turns) for _, _, row in chunk]
        flat = [turn for _, _, row in chunk for turn in row.turns]
        pause_s, think_s, drawn = rest.draw(len(chunk), len(flat))
        prompt, output = [prompt for prompt, _ in flat], [output for _, output in flat]
        columns = Columns(first, turns, pause_s, prompt, output, think_s.tolist(), drawn, [each[1:] for each in chunk])
        at_s = next(times, np.zeros(0)) if times else np.array([each[0] for each in chunk])
        yield at_s[: len(chunk)], columns
        if not len(at_s):
            return
        first += len(chunk)


def _in_chunks(rows: Iterator[TimedRow]) -> Iterator[list[TimedRow]]:
    """Yield rows in chunks of CHUNK; the last one is shorter, if there is one. Raise `WorkloadError` for one that is
    wrong: in the first chunk at once, later on after those before it."""
    chunk: list[TimedRow] = []
    begun = False
    try:
        for row in rows:
            chunk.append(row)
            if len(chunk) == CHUNK:
                yield chunk
                chunk, begun = [], True
    except WorkloadError:
        if chunk and begun:
            yield chunk
        raise
    if chunk:
        yield chunk


class _Rest:
    """Draws the parts of sessions and turns that do not depend on where their lengths come from."""

    def __init__(self, workload: Workload, seed: int) -> None:
        closed = None if isinstance(workload.arrivals, OpenLoop) or workload.arrivals is None else workload.arrivals
        self._pause_s = closed.think_s if closed else None
        self._think_s = workload.sessions.think_s
        self._rng = {name: stream(seed, name) for name in ("pause", "think", *LABELS)}

    def draw(self, sessions: int, turns: int) -> tuple[list[float], Values, tuple[Values, ...]]:
        """Pauses before so many sessions, times to think before so many turns, and draws for the labels."""
        pause_s = self._pause_s.draw(self._rng["pause"], sessions) if self._pause_s else np.zeros(sessions)
        think_s = self._think_s.draw(self._rng["think"], turns)
        return pause_s.tolist(), think_s, tuple(self._rng[name].random(sessions) for name in LABELS)


def _fitting(turns: list[Turn], max_tokens: int) -> list[Turn]:
    total = 0
    for place, turn in enumerate(turns):
        total += turn.prompt + turn.output
        if place and max_tokens and total > max_tokens:
            return turns[:place]
    return turns
