"""Do questions find what is there to be found? Points are answered here by laws of the test's own."""

from collections.abc import Callable
from math import isnan
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.study.point import NOBODY
from serving.study.questions.capacity import is_short
from serving.study.questions.compare import is_comparable
from serving.study.questions.lead import gap_of, leads
from serving.study.spec import load_study
from serving.study.study import Finding, Inquiry, Study
from serving.study.summary import COLUMNS, Row
from tests.examples import examples

WORKLOAD = """
[workload]
requests = 100
prompt = 10
output = 10
arrivals = {arrivals}
"""
COST = "cost_per_million_tokens"
OPEN, CLOSED = '{ kind = "poisson", rate_per_s = 2 }', '{ kind = "closed", users = 10 }'


def study(folder: Path, text: str, arrivals: str = OPEN) -> Study:
    path = folder / "study.toml"
    path.write_text("slo.ttft_ms = 1000\n" + text + WORKLOAD.format(arrivals=arrivals))
    return load_study(path)


def row(**figures: float) -> Row:
    """Figures of a run that serves all that arrives, unless they say more."""
    served = {"judged": 100, "refused": 0, "refused_share": 0.0, "served_per_s": figures.get("offered_per_s", 1.0)}
    return dict.fromkeys(COLUMNS, 1.0) | served | figures


def ask(inquiry: Inquiry, law: Callable[[Row], Row | str]) -> tuple[Row | None, list[Finding]]:
    """Its answer, if the world is so, and all that it asked for."""
    findings: list[Finding] = []
    points = next(inquiry)
    while True:
        made = []
        for point in points:
            found = law(point.names | {"load": point.load})
            made.append(Finding(point, {}, found) if isinstance(found, str) else Finding(point, found))
        findings += made
        try:
            points = inquiry.send(made)
        except StopIteration as ending:
            return ending.value, findings


@examples(40)
@given(most=st.floats(0.01, 100.0), tolerance=st.sampled_from([0.01, 0.05, 0.3]))
def test_capacity_is_the_highest_load_that_holds(
    tmp_path_factory: pytest.TempPathFactory, most: float, tolerance: float
) -> None:
    asked = study(
        tmp_path_factory.mktemp("study"), f'question = "capacity"\ncapacity = {{ tolerance = {tolerance} }}\n'
    )
    (inquiry,) = asked.question.inquiries(asked)
    answer, findings = ask(inquiry, lambda at: row(attainment=float(at["load"] <= most), offered_per_s=at["load"]))
    assert answer is not None
    assert answer["load"] <= most <= answer["load"] * (1 + tolerance)
    assert len(findings) < 26


def test_capacity_counts_users_one_by_one(tmp_path: Path) -> None:
    asked = study(tmp_path, 'question = "capacity"\ncapacity = { tolerance = 0.001 }\n', CLOSED)
    (inquiry,) = asked.question.inquiries(asked)
    answer, findings = ask(
        inquiry, lambda at: row(attainment=float(round(10 * at["load"]) <= 23), offered_per_s=at["load"])
    )
    assert answer is not None and answer["users"] == 23
    assert len(findings) < 12


def test_capacity_is_what_held_where_more_load_leaves_nobody_to_judge(tmp_path: Path) -> None:
    asked = study(tmp_path, 'question = "capacity"\njudge.from_s = 30\n')
    (inquiry,) = asked.question.inquiries(asked)
    late = f"{NOBODY} in the window of `judge`, from 30 s (`judge.from_s`)."
    answer, _ = ask(inquiry, lambda at: late if at["load"] > 4 else row(attainment=1.0, offered_per_s=at["load"]))
    assert answer is not None and (answer["load"], answer["limit"]) == (4.0, "workload too short: nobody left to judge")


@pytest.mark.parametrize("seeds", ["", "seeds = [0, 1]\n"])
def test_capacity_is_found_below_a_dip_beyond_which_nobody_is_judged(tmp_path: Path, seeds: str) -> None:
    asked = study(tmp_path, f'question = "capacity"\n{seeds}')
    (inquiry,) = asked.question.inquiries(asked)

    def law(at: Row) -> Row | str:
        kept = 1.0 if at["load"] <= 1.4 else 0.9
        return NOBODY if at["load"] > 3 else row(attainment=kept, ttft_attainment=kept, offered_per_s=at["load"])

    answer, _ = ask(inquiry, law)
    assert answer is not None and (1.37 < answer["load"] <= 1.4, answer["limit"]) == (True, "TTFT")


def test_capacity_below_a_load_that_leaves_nobody_to_judge_is_not_known(tmp_path: Path) -> None:
    asked = study(tmp_path, 'question = "capacity"\n')
    (inquiry,) = asked.question.inquiries(asked)

    def law(at: Row) -> Row | str:
        kept = 1.0 if at["load"] <= 1.1 else 0.9
        return row(attainment=kept, ttft_attainment=kept) if not 1.1 < at["load"] < 1.9 else NOBODY

    answer, _ = ask(inquiry, law)
    assert answer is not None and (1.07 < answer["load"] <= 1.1, is_short(answer)) == (True, True)


def test_capacity_is_nothing_where_less_load_leaves_nobody_to_judge(tmp_path: Path) -> None:
    asked = study(tmp_path, 'question = "capacity"\n')
    (inquiry,) = asked.question.inquiries(asked)
    nobody = f"{NOBODY} before the workload ends."
    figures = {"attainment": 0.2, "ttft_attainment": 0.2}
    answer, _ = ask(inquiry, lambda at: nobody if at["load"] < 0.2 else row(**figures))
    assert answer is not None and (answer["load"], answer["limit"]) == (0.0, "TTFT even at 0.25")


def test_capacity_of_a_point_that_fails_is_its_error(tmp_path: Path) -> None:
    asked = study(tmp_path, 'question = "capacity"\n')
    (inquiry,) = asked.question.inquiries(asked)
    answer, _ = ask(inquiry, lambda at: "KeyError: 'x'" if at["load"] > 1 else row(attainment=1.0))
    assert answer is not None and answer["error"] == "KeyError: 'x'"


def test_capacity_says_that_requests_are_turned_away(tmp_path: Path) -> None:
    asked = study(tmp_path, 'question = "capacity"\n')
    (inquiry,) = asked.question.inquiries(asked)

    def full(at: Row) -> Row:
        kept = min(1.0, 2 / at["load"])
        shares = dict.fromkeys(("attainment", "ttft_attainment", "tpot_attainment"), kept)
        return row(offered_per_s=at["load"], refused_share=1 - kept, **shares)

    answer, _ = ask(inquiry, full)
    assert answer is not None and answer["limit"] == "requests turned away"


def test_capacity_says_so_by_the_requests_that_are_judged(tmp_path: Path) -> None:
    asked = study(tmp_path, 'question = "capacity"\n')
    (inquiry,) = asked.question.inquiries(asked)
    shares = {"attainment": 0.3, "ttft_attainment": 0.3, "tpot_attainment": 0.5}

    def full_at_the_end(at: Row) -> Row:
        # Of all requests few were turned away, as the first of them, which are not judged, found room.
        late = row(offered_per_s=at["load"], requests=1000, refused=50, refused_share=0.5, **shares)
        return late if at["load"] > 1 else row(offered_per_s=at["load"])

    answer, _ = ask(inquiry, full_at_the_end)
    assert answer is not None and answer["limit"] == "requests turned away"


def test_capacity_of_too_few_users_names_those_that_were_tried(tmp_path: Path) -> None:
    asked = study(tmp_path, 'question = "capacity"\n', CLOSED)
    (inquiry,) = asked.question.inquiries(asked)
    answer, _ = ask(inquiry, lambda at: row(attainment=0.0, tpot_attainment=0.0))
    assert answer is not None and (answer["load"], answer["limit"]) == (0.0, "TPOT even with 1 user")


@pytest.mark.parametrize(
    ("requests", "users", "limit"), [(1700, 55, "TTFT"), (70, 20, "workload too short"), (80, 55, "TTFT")]
)
def test_a_closed_loop_is_as_busy_with_more_users_and_not_too_short(
    tmp_path: Path, requests: int, users: int, limit: str
) -> None:
    """What four users make busy serves no more of them any faster; it is too short where they hardly ask twice."""
    asked = study(tmp_path, 'question = "capacity"\ncapacity = { tolerance = 0.001 }\n', CLOSED)
    (inquiry,) = asked.question.inquiries(asked)

    def busy(at: Row) -> Row:
        now = round(10 * at["load"])
        kept, rate = float(now <= 55), float(min(now, 4))
        return row(attainment=kept, ttft_attainment=kept, offered_per_s=rate, served_per_s=rate, requests=requests)

    answer, _ = ask(inquiry, busy)
    assert answer is not None and (answer["users"], answer["limit"]) == (users, limit)


@examples(40)
@given(users=st.integers(1, 60), base=st.integers(1, 30))
def test_capacity_tries_every_number_of_users_between(
    tmp_path_factory: pytest.TempPathFactory, users: int, base: int
) -> None:
    closed = f'{{ kind = "closed", users = {base} }}'
    asked = study(tmp_path_factory.mktemp("study"), 'question = "capacity"\ncapacity = { tolerance = 0.001 }\n', closed)
    (inquiry,) = asked.question.inquiries(asked)
    served = lambda at: max(1, round(base * at["load"]))  # noqa: E731
    answer, _ = ask(inquiry, lambda at: row(attainment=float(served(at) <= users), offered_per_s=served(at)))
    assert answer is not None and answer["users"] == users


@pytest.mark.parametrize(("most", "found"), [(4, 3.9), (8, 3.9), (3.9, 3.9), (2.05, 2.05), (1.04, 1.04), (33, 3.9)])
def test_capacity_asks_no_more_than_it_may_and_finds_what_lies_below(tmp_path: Path, most: float, found: float) -> None:
    """What misses its targets by little, at the most that may be tried, is no dip; a last step may be a small one."""
    asked = study(tmp_path, f'question = "capacity"\ncapacity = {{ most = {most} }}\n')
    (inquiry,) = asked.question.inquiries(asked)
    answer, findings = ask(
        inquiry, lambda at: row(attainment=1.0 if at["load"] <= 3.9 else 0.9, offered_per_s=at["load"])
    )
    assert answer is not None and answer["load"] <= found <= answer["load"] * 1.02
    assert max(finding.point.load for finding in findings) <= most
    assert answer["limit"].startswith("none up to") == (most <= 3.9)


@pytest.mark.parametrize(
    ("law", "load", "limit"),
    [
        (lambda at: row(attainment=0.0, ttft_attainment=0.2, tpot_attainment=0.9), 0.0, "TTFT even at"),
        (lambda at: row(offered_per_s=min(at["load"], 3.0)), 4, "workload too short"),
        (lambda at: row(offered_per_s=at["load"], served_per_s=min(at["load"], 3.0)), 4, "workload too short"),
        (lambda at: row(offered_per_s=at["load"]), 16, "none up to 16"),
        (lambda at: row(attainment=at["load"] <= 1, tpot_attainment=0.5, offered_per_s=at["load"]), 1.0, "TPOT"),
    ],
)
def test_capacity_says_what_limits_it(tmp_path: Path, law: Callable[[Row], Row], load: float, limit: str) -> None:
    asked = study(tmp_path, 'question = "capacity"\ncapacity = { most = 16 }\n')
    (inquiry,) = asked.question.inquiries(asked)
    answer, _ = ask(inquiry, law)
    assert answer is not None and answer["load"] == load and answer["limit"].startswith(limit)


def dipping(at: Row) -> Row:
    """As a device that goes over to speculation at load 5: it is late from 3 on, in time again then, and late at 40."""
    share = 1.0 if at["load"] < 3 or 5 <= at["load"] < 40 else 0.7
    return row(attainment=share, tpot_attainment=share, offered_per_s=at["load"])


@pytest.mark.parametrize("users", [1, 4, 64])
def test_capacity_looks_beyond_a_dip_and_tells_of_it(tmp_path: Path, users: int) -> None:
    arrivals = f'{{ kind = "poisson", rate_per_s = {users} }}'
    asked = study(tmp_path, 'question = "capacity"\ncapacity = { attainment = 0.95 }\n', arrivals)
    (inquiry,) = asked.question.inquiries(asked)
    answer, findings = ask(inquiry, lambda at: dipping(at | {"load": at["load"] * users}))
    assert answer is not None
    assert answer["load"] * users <= 40 <= answer["load"] * users * 1.02
    missed = any(3 <= each.point.load * users < 5 for each in findings)
    assert answer["limit"] == "TPOT" if not missed else answer["limit"].startswith("TPOT, and misses it at ")


def test_capacity_does_not_look_for_a_dip_where_all_is_late(tmp_path: Path) -> None:
    asked = study(tmp_path, 'question = "capacity"\n')
    (inquiry,) = asked.question.inquiries(asked)
    _, findings = ask(inquiry, lambda at: row(attainment=float(at["load"] <= 1.5), offered_per_s=at["load"]))
    assert max(each.point.load for each in findings) == 2


def test_a_point_that_fails_is_the_answer_of_its_inquiry_alone(tmp_path: Path) -> None:
    asked = study(tmp_path, 'question = "capacity"\naxes = { devices = [1, 2] }\n')
    answers = [
        ask(inquiry, lambda at: "No such thing." if at["devices"] == 1 else row(attainment=at["load"] <= 1))[0]
        for inquiry in asked.question.inquiries(asked)
    ]
    assert answers[0] == {"devices": 1, "error": "No such thing."}
    assert answers[1] is not None and answers[1]["load"] == 1


SEARCH = """
question = "search"
search = {{ minimise = "j_per_token", where = ["tpot_p99_s <= 0.05"], trials = {trials} }}
axes = {{ tau = {{ from = 1, to = {most} }}, batching = ["fcfs", "slo-aware"] }}
"""


def bowl(at: Row) -> Row:
    """Cheapest at tau 12, which is too slow under fcfs."""
    return row(
        j_per_token=1 + (at["tau"] - 12) ** 2 / 100 + (at["batching"] != "fcfs") / 10,
        tpot_p99_s=0.06 if at["batching"] == "fcfs" else 0.04,
    )


@pytest.mark.slow
@pytest.mark.parametrize(("most", "trials"), [(16, 32), (64, 48)])
def test_search_finds_the_best_that_keeps_its_bounds(tmp_path: Path, most: int, trials: int) -> None:
    asked = study(tmp_path, SEARCH.format(most=most, trials=trials))
    runs = [ask(asked.question.inquiries(asked)[0], bowl) for _ in range(2)]
    (answer, findings), again = runs
    assert answer is not None and answer == again[0]
    assert [each.point for each in findings] == [each.point for each in again[1]]
    assert answer["batching"] == "slo-aware" and answer["kept"]
    # All places are tried if they are few; else it comes close to the best with less than half of them.
    assert abs(answer["tau"] - 12) <= (0 if trials >= 2 * most else 3)
    assert len({str(each.point) for each in findings}) == len(findings) == trials


def test_search_without_a_place_that_keeps_its_bounds_says_so(tmp_path: Path) -> None:
    asked = study(tmp_path, SEARCH.format(most=4, trials=10))
    answer, _ = ask(asked.question.inquiries(asked)[0], lambda at: row(tpot_p99_s=0.05 + at["tau"] / 100))
    assert answer is not None and not answer["kept"] and answer["tau"] == 1


COMPARE = """
question = "compare"
seeds = [1, 2]
variants = { a = { tau = 4 }, b = { tau = 8 } }
axes = { load = [1, 2] }
"""


def test_compare_puts_each_variant_beside_the_baseline_in_its_place(tmp_path: Path) -> None:
    asked = study(tmp_path, COMPARE)
    findings: list[Finding] = []
    for inquiry in asked.question.inquiries(asked):
        of_one = ask(inquiry, lambda at: row(ttft_mean_s=at["load"] * (2 + at["seed"] if at["variant"] == "b" else 2)))
        findings += of_one[1]
    answers = asked.question.answers(asked, [], findings)
    assert [(each["variant"], each["load"]) for each in answers] == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
    assert [each["ttft_mean_s /base"] for each in answers] == [1, 1, 1.75, 1.75]
    assert (answers[3]["ttft_mean_s /base least"], answers[3]["ttft_mean_s /base most"]) == (1.5, 2.0)


@pytest.mark.parametrize(("refusing", "known"), [("ab", [False, False]), ("a", [False, False]), ("b", [True, False])])
def test_compare_tells_where_nobody_is_served(tmp_path: Path, refusing: str, known: list[bool]) -> None:
    asked = study(tmp_path, 'question = "compare"\nvariants.a.tau = 2\nvariants.b.tau = 3\naxes.load = [1, 2]\n')
    nobody = dict.fromkeys(COLUMNS, 0.0) | {"judged": 100, "refused": 100, "refused_share": 1.0}
    findings: list[Finding] = []
    for inquiry in asked.question.inquiries(asked):
        findings += ask(inquiry, lambda at: nobody if at["variant"] in refusing and at["load"] == 2 else row())[1]
    found = [(each["load"], is_comparable(each)) for each in asked.question.answers(asked, [], findings)]
    assert found == [(1, True), (2, known[0]), (1, True), (2, known[1])]


def test_compare_has_no_ratio_of_nothing_to_nothing(tmp_path: Path) -> None:
    """Nobody is as fast with one variant as with the other; nor has a device without experts as many hits."""
    asked = study(tmp_path, 'question = "compare"\nseeds = [1, 2]\nvariants.a.tau = 2\nvariants.b.tau = 3\n')
    nobody = dict.fromkeys(COLUMNS, 0.0) | {"judged": 100, "refused": 100, "refused_share": 1.0}
    findings: list[Finding] = []
    for inquiry in asked.question.inquiries(asked):
        findings += ask(inquiry, lambda at: nobody if at["seed"] == 1 else row(hit_rate=0.0))[1]
    _, other = asked.question.answers(asked, [], findings)
    assert (other["ttft_mean_s /base"], other["ttft_mean_s /base least"], other["ttft_mean_s /base most"]) == (1, 1, 1)
    assert isnan(other["hit_rate /base"]) and "hit_rate /base least" not in other
    _, other = asked.question.answers(asked, [], [each for each in findings if each.point.seed == 1])
    assert all(isnan(other[name]) for name in other if name.endswith("/base"))


def test_a_seed_with_which_nobody_is_served_makes_nothing_faster(tmp_path: Path) -> None:
    """Its latencies, joules a token and hits say 0, as there are none: no part of a mean; what is served is one."""
    asked = study(tmp_path, 'question = "compare"\nseeds = [1, 2]\nvariants.a.tau = 2\nvariants.b.tau = 3\n')
    nobody = dict.fromkeys(COLUMNS, 0.0) | {"judged": 100, "refused": 100, "refused_share": 1.0}
    findings: list[Finding] = []
    for inquiry in asked.question.inquiries(asked):
        findings += ask(inquiry, lambda at: nobody if (at["variant"], at["seed"]) == ("b", 1) else row())[1]
    _, other = asked.question.answers(asked, [], findings)
    assert [other[f"{name} /base"] for name in ("ttft_mean_s", "tpot_p99_s", "j_per_token", "hit_rate")] == [1] * 4
    assert [other[f"{name} /base"] for name in ("attainment", "goodput_per_s", "tokens_per_s")] == [0.5] * 3
    assert gap_of(findings[:2], findings[2:], "j_per_token", 1).lead == 0


def test_sweep_names_the_best_of_those_that_keep_their_targets(tmp_path: Path) -> None:
    asked = study(tmp_path, 'question = "sweep"\naxes = { devices = [1, 2, 4] }\n')
    laws = {1: row(attainment=0.5, goodput_per_s=9.0), 2: row(goodput_per_s=2.0, j_per_token=0.1), 4: row()}
    findings = [ask(inquiry, lambda at: laws[at["devices"]])[1][0] for inquiry in asked.question.inquiries(asked)]
    answers = asked.question.answers(asked, [], findings)
    assert [(each["best by"], each["devices"]) for each in answers] == [("most goodput", 2), ("least energy", 2)]


def test_sweep_names_no_place_at_which_a_seed_failed(tmp_path: Path) -> None:
    asked = study(tmp_path, 'question = "sweep"\nseeds = [0, 1]\naxes = { devices = [1, 2, 4] }\n')

    def law(at: Row) -> Row | str:
        return "Failed." if at["devices"] == 4 and at["seed"] else row(goodput_per_s=at["devices"])

    findings = [each for inquiry in asked.question.inquiries(asked) for each in ask(inquiry, law)[1]]
    best, _ = asked.question.answers(asked, [], findings)
    assert best["devices"] == 2
    assert [lead.first for lead in leads(asked, findings, [])] == [{"devices": 2}, {"devices": 1}]


def test_search_leaves_places_without_the_figure_to_the_last(tmp_path: Path) -> None:
    """What a token costs is unknown where there is none."""
    text = SEARCH.format(most=4, trials=16).replace('"j_per_token"', '"cost_per_million_tokens"')
    asked = study(tmp_path, f"cost = {{ node_price = 1 }}\n{text}")
    (inquiry,) = asked.question.inquiries(asked)
    answer, _ = ask(inquiry, lambda at: row(tpot_p99_s=0.01) | ({} if at["tau"] < 4 else {COST: 2.0}))
    assert answer is not None and (answer["tau"], answer[COST], answer["kept"]) == (4, 2.0, True)


def test_search_leaves_places_that_serve_nobody_to_the_last(tmp_path: Path) -> None:
    """Their energy a token is none, and their latency, not 0; no bound is kept by them. It is those who are judged that
    count: before, somebody may have been served."""
    asked = study(tmp_path, SEARCH.format(most=4, trials=16))
    (inquiry,) = asked.question.inquiries(asked)
    nobody = row(requests=100, refused=50, refused_share=1.0, j_per_token=0.0, tpot_p99_s=0.0)
    answer, findings = ask(inquiry, lambda at: row(tpot_p99_s=0.01, j_per_token=2.0) if at["tau"] == 4 else nobody)
    assert answer is not None and (answer["tau"], answer["j_per_token"], answer["kept"]) == (4, 2.0, True)
    assert not asked.question.keeps([findings[0]])  # type: ignore[attr-defined]


def test_compare_sets_runs_of_the_same_requests_side_by_side(tmp_path: Path) -> None:
    asked = study(tmp_path, 'question = "compare"\nseeds = [0, 1, 2]\nvariants.a.tau = 2\nvariants.b.tau = 3\n')
    findings = []

    def failed(at: Row) -> bool:
        return bool(at["seed"] == {"a": 0, "b": 1}[at["variant"]])

    for inquiry in asked.question.inquiries(asked):
        findings += ask(inquiry, lambda at: "Failed." if failed(at) else row(tokens_per_s=10.0 ** at["seed"]))[1]
    rows = asked.question.answers(asked, [], findings)
    assert [each["tokens_per_s /base"] for each in rows] == [1, 1]
