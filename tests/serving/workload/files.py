"""Workload files for tests, written as they are needed."""

from pathlib import Path

from serving.workload import Ask, Source, Workload, load_workload

POISSON = '[arrivals]\nkind = "poisson"\nrate_per_s = 10\n'
LENGTHS = "[prompt]\nkind = 'uniform'\nmin = 5\nmax = 50\n[output]\nkind = 'exponential'\nmean = 20\n"


def written(folder: Path, text: str) -> Workload:
    """The workload that a file of this text is."""
    path = folder / "workload.toml"
    path.write_text(text)
    return load_workload(path)


def served(source: Source, service_s: float = 1.0) -> list[tuple[Ask, float]]:
    """All requests in the order of their arrival, each with its end: as long as this after it began."""
    waiting, done = list(source), []
    while waiting:
        waiting.sort(key=lambda ask: ask.arrival_s)
        ask = waiting.pop(0)
        done.append((ask, ask.arrival_s + service_s))
        if following := source.next_after(*done[-1]):
            waiting.append(following)
    return done
