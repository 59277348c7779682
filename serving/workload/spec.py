"""A workload as its file says it; every key and what is allowed for it."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from serving.toml_table import AT_LEAST_0, COUNT, POSITIVE, WHOLE, TomlTable
from serving.topics.names import NAMES
from serving.workload.agents import Agents, agents_of
from serving.workload.arrivals import ClosedLoop, OpenLoop, Steps, arrivals
from serving.workload.distributions import TOKENS, TURNS, Distribution, always, distribution
from serving.workload.shares import NOBODY, Shares, shares
from serving.workload.table import WorkloadTable
from serving.workload.traces.replay import Trace, trace

PER = ("workload", "topic", "key")


@dataclass(frozen=True, slots=True)
class System:
    """A system prompt of `tokens` tokens, shared by the whole workload, a topic, or an API key."""

    tokens: int
    per: str


@dataclass(frozen=True, slots=True)
class Sessions:
    """Turns of a session, and how long its user thinks before the next one. A session ends before a turn would make it
    longer than `max_tokens` (0: no limit)."""

    turns: Distribution
    think_s: Distribution
    max_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload: arrivals, and what requests are like. Without `arrivals` a trace says when. `prompt` is a user's text
    in one turn."""

    arrivals: OpenLoop | ClosedLoop | None
    prompt: Distribution
    output: Distribution
    sessions: Sessions
    agents: Agents | None = None
    system: System | None = None
    topics: Shares = NOBODY
    slo: Shares = NOBODY
    keys: Shares = NOBODY
    trace: Trace | None = None
    seed: int = 0
    requests: int | None = None
    duration_s: float | None = None
    tell_topic: bool = True

    @property
    def ends(self) -> bool:
        """Tell whether it does, by itself or because it is bounded."""
        finite = self.trace is not None and not self.trace.loop
        steps = isinstance(self.arrivals, OpenLoop) and isinstance(self.arrivals.rate, Steps)
        return finite or steps or self.requests is not None or self.duration_s is not None

    def at_load(self, factor: float) -> "Workload":
        """Return the workload with its request rate (in a closed loop: its users) multiplied by `factor`."""
        if self.arrivals is not None:
            return replace(self, arrivals=self.arrivals.at_load(factor))
        assert self.trace is not None
        return replace(self, trace=replace(self.trace, rate_scale=self.trace.rate_scale * factor))


def load_workload(
    path: Path, seed: int | None = None, requests: int | None = None, duration_s: float | None = None
) -> Workload:
    """Return the workload in a TOML file; `seed`, `requests` and `duration_s` count instead of the file's.

    Raise `WorkloadError`, which names file, line and key.
    """
    table = WorkloadTable.load(path)
    given = {"seed": seed, "requests": requests, "duration_s": duration_s}
    found = replace(workload_of(table), **{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]
    if not found.ends:
        raise table.error("requests", "is missing, and `duration_s` too: one of them must say where it ends.")
    return found


def workload_of(table: TomlTable) -> Workload:
    """Return the workload that a table describes, which may be one without end."""
    when = table.table("arrivals")
    if when is None:
        raise table.wrong("arrivals", None, "a table with a `kind`")
    replayed = table.table("trace")
    found = Workload(
        arrivals(when),
        **_lengths(table, replayed is not None),
        sessions=_sessions(table, replayed is not None),
        agents=_agents(table, replayed is not None),
        system=_system(table),
        topics=shares(table, "topics", NAMES),
        slo=shares(table, "slo"),
        keys=shares(table, "keys"),
        trace=trace(replayed) if replayed else None,
        seed=table.whole("seed", WHOLE, 0),
        requests=table.whole("requests", COUNT, None),
        duration_s=table.number("duration_s", POSITIVE, None),
        tell_topic=table.flag("tell_topic", True),
    )
    table.end()
    if found.arrivals is None and replayed is None:
        raise when.error("kind", "is 'trace', and there is no table `trace` that names its file.")
    if found.arrivals is not None and replayed is not None and "rate_scale" in replayed:
        raise replayed.error("rate_scale", "is set, and `arrivals.kind` is not 'trace': they say at which rate.")
    return found


def _lengths(table: TomlTable, replayed: bool) -> dict[str, Any]:
    for name in ("prompt", "output"):
        if replayed and name in table:
            raise table.error(name, "is set, and `trace` too, which says how long requests are: choose one.")
    default = always(1.0) if replayed else None
    return {name: distribution(table, name, TOKENS, default) for name in ("prompt", "output")}


def _sessions(table: TomlTable, replayed: bool) -> Sessions:
    below = table.table("sessions") or table.below("sessions", {})
    if replayed and "turns" in below:
        raise below.error("turns", "is set, and `trace` too, which says how many turns there are: choose one.")
    found = Sessions(
        distribution(below, "turns", TURNS, always(1.0)),
        distribution(below, "think_s", AT_LEAST_0, always(0.0)),
        below.whole("max_tokens", COUNT, 0),
    )
    below.end()
    return found


def _agents(table: TomlTable, replayed: bool) -> Agents | None:
    if replayed and "agents" in table:
        raise table.error("agents", "is set, and `trace` too, whose requests call no tools: choose one.")
    return agents_of(table.table("agents"))


def _system(table: TomlTable) -> System | None:
    below = table.table("system")
    if below is None:
        return None
    found = System(below.whole("tokens", TOKENS), below.word("per", PER, PER[0]))
    below.end()
    return found
