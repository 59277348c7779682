"""Agents: in each turn the model calls a tool, gets its result, and calls the next one, until it answers.

Each call is a request of its own, whose prompt is all that was said before it: it grows by the call and by its result.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from serving.toml_table import AT_LEAST_0, AllowedNumber, TomlTable
from serving.workload.distributions import MOST_TURNS, TOKENS, TURNS, Distribution, always, distribution
from serving.workload.seeded_chance import stream
from serving.workload.tools import TOOLS

CALL_TOKENS = 40
"""Of a call, unless the file says so: a name and an argument or two, in JSON."""
HOW_MANY = AllowedNumber(
    f"a whole number from 1 to {len(TOOLS)}", lambda value: 1 <= value <= len(TOOLS) and value == int(value)
)
Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Agents:
    """`calls` before an answer, each `call` tokens long; a tool takes `tool_s` and tells `result` tokens. The model is
    offered the first `tools` of TOOLS."""

    calls: Distribution
    call: Distribution
    result: Distribution
    tool_s: Distribution
    tools: int


class Requests(NamedTuple):
    """Requests of agents' turns, one after the other: what each adds to the prompt and wants back, in tokens, and how
    long it comes after the one before has ended; whether it begins a turn, and whether it ends one."""

    prompt: list[int]
    output: list[int]
    after_s: list[float]
    begins: list[bool]
    ends: list[bool]


class AgentDraws:
    """Draws what agents do, from random streams of its own: users' turns are the same as without."""

    def __init__(self, agents: Agents, seed: int) -> None:
        self._agents = agents
        self._rng = {name: stream(seed, name) for name in ("calls", "call", "result", "tool")}

    def requests(
        self, turns: Counts, prompt: Counts, output: Counts, think_s: NDArray[np.float64]
    ) -> tuple[Counts, Requests]:
        """Return the number of requests of each session [len(turns)], and all of them, of users' `turns` by session;
        `prompt`, `output` and `think_s` are those of users, by turn."""
        agents, rng = self._agents, self._rng
        of_turn = agents.calls.whole(rng["calls"], len(prompt), MOST_TURNS) + 1
        total, ends = int(of_turn.sum()), np.cumsum(of_turn) - 1
        begins = ends - of_turn + 1
        prompts, outputs = agents.result.whole(rng["result"], total), agents.call.whole(rng["call"], total)
        after_s = agents.tool_s.draw(rng["tool"], total)
        prompts[begins], outputs[ends], after_s[begins] = prompt, output, think_s
        first, last = np.zeros(total, bool), np.zeros(total, bool)
        first[begins], last[ends] = True, True
        of_session = np.add.reduceat(of_turn, np.cumsum(turns) - turns)
        lists: list[Any] = [each.tolist() for each in (prompts, outputs, after_s, first, last)]
        return of_session, Requests(*lists)


def agents_of(table: TomlTable | None) -> Agents | None:
    """Parse a table `agents`; None if there is none."""
    if table is None:
        return None
    call = distribution(table, "call", TOKENS, always(CALL_TOKENS))
    found = Agents(
        calls=distribution(table, "calls", TURNS),
        call=call,
        result=distribution(table, "result", TOKENS),
        tool_s=distribution(table, "tool_s", AT_LEAST_0),
        tools=table.whole("tools", HOW_MANY, min(4, len(TOOLS))),
    )
    table.end()
    return found
