"""Are the points of a combination in the order of their loads?"""

from types import SimpleNamespace
from typing import Any

from serving.study.report.combinations import combinations_of


def found(load: float, offered_per_s: float, **settings: Any) -> Any:
    row = {"judged": 10, "offered_per_s": offered_per_s}
    return SimpleNamespace(point=SimpleNamespace(names=settings | {"load": load, "seed": 0}), row=row, error="")


def test_a_load_that_one_seed_alone_was_tried_at_is_no_mean() -> None:
    findings = [found(load, load) for load in (1, 1, 2, 2, 3)]
    (combination,) = combinations_of(findings)
    assert [at.settings["load"] for at in combination.ats] == [1, 2]


def test_a_closed_loop_that_is_crowded_lies_behind_the_loads_that_it_was_not_at() -> None:
    """There more users offer less, as each waits: by what is offered, a node would fail at half of what it holds."""
    users = "workload.arrivals.users"
    findings = [found(load, offered, **{users: 16}) for load, offered in ((8, 1.8), (2, 1.3), (5, 2.9), (1, 0.7))]
    (combination,) = combinations_of(findings)
    assert [at.settings["load"] for at in combination.ats] == [1, 2, 5, 8]
    assert [at["offered_per_s"] for at in combination.ats] == [0.7, 1.3, 2.9, 1.8]
