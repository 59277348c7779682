"""Does a mode last, and is no more lost by that than was agreed?"""

from bisect import bisect_right
from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as st

from serving.policies.hysteresis import CHANGE_S, CREDIT_S, LEAD, SLACK, WINDOW_S, Hysteresis
from serving.policies.regrets import Regret

# The lead of drafting: its tokens per second over those of plain decoding.
leads = st.one_of(st.floats(0.1, 6.0), st.floats(0.95, 1.05))
stretches = st.lists(st.tuples(leads, st.floats(0.001, 8.0)), min_size=2, max_size=120)
MOST = 4


def regret(lead: float) -> Regret:
    return Regret(1 - 1 / lead, 1 - lead)


def run(loads: list[tuple[float, float]]) -> list[bool]:
    """The mode in each stretch of a lead and the seconds for which it lasts."""
    hysteresis, at_s, worked_s, modes = Hysteresis(), 0.0, 0.0, []
    for lead, seconds in loads:
        modes.append(hysteresis.drafts(regret(lead), at_s, worked_s))
        at_s, worked_s = at_s + seconds, seconds
    return modes


@given(st.one_of(stretches, stretches.map(lambda few: few * 10)))
def test_no_minute_has_more_than_four_changes_whatever_the_load_does(loads: list[tuple[float, float]]) -> None:
    modes = run(loads)
    at_s = [0.0, *accumulate(seconds for _, seconds in loads)]
    changes_s = [at_s[i + 1] for i, (one, other) in enumerate(pairwise(modes)) if one != other]
    assert all(bisect_right(changes_s, since_s + WINDOW_S - 1e-9) - i <= MOST for i, since_s in enumerate(changes_s))


@given(stretches)
def test_it_changes_only_into_the_better_mode_and_begins_in_it(loads: list[tuple[float, float]]) -> None:
    modes = run(loads)
    assert modes[0] == (regret(loads[0][0]).plain > LEAD)
    assert all(
        later == (lead > 1) for (one, later), (lead, _) in zip(pairwise(modes), loads[1:], strict=True) if one != later
    )


@given(leads, st.floats(0.0, 100.0), leads, st.floats(0.001, 0.05))
def test_a_load_that_stays_costs_no_more_than_a_change_and_the_credit_before_it_has_its_mode(
    before: float, before_s: float, after: float, step_s: float
) -> None:
    modes = run([(before, before_s), *[(after, step_s)] * 4000])
    lost = [regret(after)[drafting] for drafting in modes[1:]]
    # Where the other mode leads by less it is not entered.
    lost_s = sum((each - SLACK) * step_s for each in lost if each > LEAD)
    assert lost_s <= CHANGE_S + CREDIT_S + 2 * step_s


@given(st.floats(1.05, 3.0), st.floats(0.3, 0.95), st.floats(5.0, 600.0), st.floats(0.01, 0.05))
def test_what_one_mode_has_won_before_counts_as_credit_and_for_no_more_than_that(
    more: float, less: float, won_s: float, step_s: float
) -> None:
    modes = run([(more, won_s), *[(less, step_s)] * 9000])
    left_s = modes.index(False) * step_s * (regret(less).drafting - SLACK)
    credit_s = min(CREDIT_S, (SLACK - regret(more).drafting) * won_s)
    assert modes[0] and abs(left_s - CHANGE_S - credit_s) <= 2 * step_s + 1e-6


@given(st.floats(1.01, 2.0), st.floats(0.5, 0.99), st.floats(0.005, 0.1))
def test_a_load_that_wavers_quickly_gets_the_mode_that_is_better_on_the_whole(
    more: float, less: float, step_s: float
) -> None:
    pairs = 3000
    modes = run([(more, step_s), (less, step_s)] * pairs)
    of_plain, of_drafting = ((regret(more)[i] + regret(less)[i] - 2 * SLACK) * step_s * pairs for i in (0, 1))
    assert sum(one != other for one, other in pairwise(modes)) <= MOST
    enough_s = 2 * (CHANGE_S + CREDIT_S)
    if of_plain > enough_s and regret(more).plain > LEAD:
        assert modes[-1]
    elif of_drafting > enough_s and regret(less).drafting > LEAD:
        assert not modes[-1]


@given(stretches, st.integers(2, 5))
def test_whoever_plans_more_often_gets_the_same_modes(loads: list[tuple[float, float]], parts: int) -> None:
    """A server plans anew whenever somebody comes, virtual time only where something can come of it: not while the
    present mode is the better one."""
    modes = run(loads)
    counts = [1 if regret(lead)[drafting] > LEAD else parts for drafting, (lead, _) in zip(modes, loads, strict=True)]
    finer = [
        (lead, seconds / count) for (lead, seconds), count in zip(loads, counts, strict=True) for _ in range(count)
    ]
    begins = [0, *accumulate(counts)]
    again = run(finer)
    assert [again[i] for i in begins[:-1]] == modes
    assert all(len(set(again[i:j])) == 1 for i, j in pairwise(begins))


@given(stretches, leads, st.floats(0.001, 0.05))
def test_who_asks_again_when_a_change_is_due_changes_at_the_step_at_which_who_asks_each_time_does(
    before: list[tuple[float, float]], after: float, step_s: float
) -> None:
    """After the same past, and under a load that stays."""
    each, seldom, at_s, worked_s = Hysteresis(), Hysteresis(), 0.0, 0.0
    for lead, seconds in before:
        assert each.drafts(regret(lead), at_s, worked_s) == seldom.drafts(regret(lead), at_s, worked_s)
        at_s, worked_s = at_s + seconds, seconds
    mode = each.drafts(regret(after), at_s, worked_s)
    assert seldom.drafts(regret(after), at_s, worked_s) == mode
    asked_s, until_s, changes = at_s, seldom.until_s(at_s), list[int]()
    for hysteresis in (each, seldom):
        now_s, asked_s, step = at_s, at_s, 0
        while step < 3000:
            step, now_s = step + 1, now_s + step_s
            if hysteresis is seldom and now_s < until_s:
                continue
            if hysteresis.drafts(regret(after), now_s, now_s - asked_s) != mode:
                break
            asked_s = now_s
            until_s = hysteresis.until_s(now_s) if hysteresis is seldom else until_s
        changes.append(step)
    assert abs(changes[0] - changes[1]) <= 1, "but for rounding"
