"""Is a policy named as the best only where seeds alone would not have made it?"""

from typing import Any

import pytest

from serving.reports.policy_leads import gap_in_words, lead_sentences, leads
from serving.reports.policy_needs import check_seeds
from serving.usage_error import UsageError


def row(policy: str, goodput: tuple[float, ...], joules: tuple[float, ...], load: float = 0.9) -> dict[str, Any]:
    """Runs of a policy with seeds from 0 on."""
    each = [{"goodput_per_s": good, "j_per_token": j} for good, j in zip(goodput, joules, strict=True)]
    means = {"goodput_per_s": sum(goodput) / len(goodput), "j_per_token": sum(joules) / len(joules)}
    return (
        {"kind": "batching", "load": load, "policy": policy} | means | {"seeds": [*range(len(each))], "by_seed": each}
    )


RUNS = [
    row("fcfs", (3.0, 2.0, 2.5), (1.0, 1.2, 1.1)),
    row("priority", (3.1, 1.9, 2.6), (1.0, 1.2, 1.1)),
    row("slo-aware", (3.6, 2.4, 3.0), (1.1, 1.31, 1.2)),
    row("fcfs", (1.0, 1.0, 1.0), (1.0, 1.0, 1.0), load=1.3),
    row("priority", (1.0, 1.0, 1.0), (1.0, 1.0, 1.0), load=1.3),
    row("slo-aware", (1.0, 1.0, 1.0), (1.0, 1.0, 1.0), load=1.3),
]


def test_a_policy_that_is_ahead_with_each_seed_is_named_alone_and_others_together() -> None:
    good, joules, *_ = leads(RUNS)
    assert (good.first, good.alike, joules.alike) == ("slo-aware", [], ["priority"])
    (sentence,) = lead_sentences(RUNS)
    assert sentence == (
        "Batching: most goodput at 0.9 `slo-aware`, by 16 %, at 1.3 all alike; fewest joules at 0.9 `fcfs` and "
        "`priority`, at 1.3 all alike."
    )


def test_one_seed_names_nobody() -> None:
    runs = [row("fcfs", (3.0,), (1.0,)), row("priority", (2.0,), (2.0,))]
    assert [each.noise for each in leads(runs)] == [None, None] and not list(lead_sentences(runs))
    assert gap_in_words(runs[0], runs[1], "goodput_per_s") == "+50.0 %"


def test_a_gap_is_told_with_what_seeds_may_make_of_it() -> None:
    # Gaps of 1/31, -1/20 and 1/26, and Student's t of two degrees of freedom is 4.30.
    assert gap_in_words(RUNS[1], RUNS[0], "goodput_per_s") == "+1.3 ± 12.3 %"


def test_a_seed_that_is_given_twice_is_refused() -> None:
    check_seeds([0, 1])
    with pytest.raises(UsageError, match=r"^--seeds has 1 twice: once is enough"):
        check_seeds([1, 0, 1])
