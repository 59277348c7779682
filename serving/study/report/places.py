"""Places of a study in words: what tells one combination from the others."""

from serving.study.axes import LOAD
from serving.study.point import SEED
from serving.study.questions.compare import FIGURES
from serving.study.report.units import listed, setting
from serving.study.summary import Row, is_figure

USERS = "users"
THE_SCENARIO = "the scenario"
MOST_NAMED = 3


def place(row: Row, beside: tuple[str, ...] = (LOAD,)) -> str:
    """Return what tells an answer's place from the others, in words: of a capacity its load is the answer, and no part
    of the place."""
    return ", ".join(_settings(row, beside))


def places(rows: list[Row], beside: tuple[str, ...] = (LOAD,)) -> str:
    """Return the places of rows in words: three at most, and how many more there are."""
    if len(rows) == 1:
        return place(rows[0], beside)
    # Of places that are lists themselves nobody could tell where one ends.
    each_settings = [_settings(row, beside) for row in rows[:MOST_NAMED]]
    named = [f"{first} ({', '.join(rest)})" if rest else first for first, *rest in each_settings]
    more = [f"{len(rows) - MOST_NAMED} more"] if len(rows) > MOST_NAMED else []
    return listed([*named, *more])


def _settings(row: Row, more: tuple[str, ...]) -> list[str]:
    beside = (*more, USERS, SEED, "best by", "limit", "kept", "tried", "error")
    names = [name for name in row if not is_figure(name) and name not in beside and name not in FIGURES]
    return [setting(name, row[name]) for name in names] or [THE_SCENARIO]
