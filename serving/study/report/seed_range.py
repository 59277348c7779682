"""Seed range: how far an answer differs from seed to seed, in words and as a column of tables for people."""

from serving.study.questions.capacity import held_figure
from serving.study.report.units import scale
from serving.study.results import Results
from serving.study.summary import LEAST, MOST, SEEDS, Row

MORE_SEEDS = "several can, as `seeds = [0, 1, 2]`."


def seed_range(row: Row) -> str:
    """Return the least and the most of a capacity that a seed has alone: 31 to 35; "" of a single seed. In a closed
    loop they are users, otherwise requests a second."""
    name = held_figure(row)
    ends = [row.get(f"{name}{end}") for end in (LEAST, MOST)]
    if None in ends:
        return ""
    of = scale(name, ends)
    return " to ".join(dict.fromkeys(of.number(end) for end in ends))


def all_seeds(results: Results) -> str:
    """Return the words that narrow "keeps its targets" where seeds failed, without which no place is judged."""
    return " with all its seeds" if results.failed and len(results.study.seeds) > 1 else ""


def with_seed_range(rows: list[Row]) -> list[Row]:
    """Return answers with their range in a column of its own, beside the capacity, if any has one."""
    found = []
    for row in rows:
        name = held_figure(row)
        told: Row = {}
        for key, value in row.items():
            told[key] = value
            if key == name and (within := seed_range(row)):
                told[f"of {row[SEEDS]} seeds"] = within
        found.append(told)
    return found
