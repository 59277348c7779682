"""Which differences are too large, which too small to count, and which may be chance?"""

from serving.parity.figures import ARRIVED, CLIENT, DEVICE, PLANNED, ComparedRow, Times, quantiles
from serving.parity.schedule import Agreement, ScheduleDifference, StepShape
from serving.parity.spread import Spread
from serving.parity.verdict import Check, checks_of, differs


def row(id: str, client: Times, device: Times, planned: Times, output: int = 11) -> ComparedRow:
    times = {CLIENT: client, DEVICE: device, ARRIVED: device, PLANNED: planned}
    return ComparedRow(id, times, 0, 0, 0.0, 0.0, 10, 10, output, output, "", "", False, 0.0)


def rows(client_ms: float, device_ms: float) -> list[ComparedRow]:
    """A hundred requests, of 200 ms TTFT and 20 ms TPOT as planned; live with so much more of both."""
    planned = [Times(0.2 + i / 1e4, 0.02) for i in range(100)]
    later = [[Times(t.ttft_s + ms / 1e3, 0.02 + ms / 1e3) for t in planned] for ms in (client_ms, device_ms)]
    return [row(str(i), *each) for i, each in enumerate(zip(*later, planned, strict=True))]


NO_CHANCE = {(metric, statistic): Spread(0.1, 0.0) for metric in Times._fields for statistic in ("mean", "p50", "p99")}


def outside(found: list[Check]) -> set[tuple[str, str, str]]:
    return {(each.side, each.metric, each.statistic) for each in found if not each.within}


def test_figures_are_held_to_3_and_8_percent() -> None:
    assert len(checks_of(rows(0, 0), 1.0, NO_CHANCE)) == 8
    assert not outside(checks_of(rows(0.5, 0.5), 1.0, NO_CHANCE))
    # 1 ms is 5 % of a TPOT, and nothing of a TTFT.
    assert outside(checks_of(rows(1, 0), 1.0, NO_CHANCE)) == {(CLIENT, "tpot_s", "mean")}
    # 2 ms are 10 % of it.
    assert outside(checks_of(rows(0, 2), 1.0, NO_CHANCE)) == {(DEVICE, "tpot_s", s) for s in ("mean", "p99")}
    # 8 ms are 3.3 % of the mean TTFT too.
    assert (CLIENT, "ttft_s", "mean") in outside(checks_of(rows(8, 0), 1.0, NO_CHANCE))


def test_what_clocks_cannot_tell_apart_is_no_difference() -> None:
    quick = [row("a", Times(0.0109, 0.00109), Times(0.0109, 0.00109), Times(0.01, 0.001))]
    assert not outside(checks_of(quick, 1.0, NO_CHANCE))  # 9 % of each, and less than 1 ms over all tokens.
    assert len(outside(checks_of(quick, 0.5, NO_CHANCE))) == 8  # 1.8 ms of a slower clock


def test_what_virtual_time_does_by_chance_too_is_no_failure_and_no_agreement() -> None:
    found = checks_of(rows(20, 0), 1.0, NO_CHANCE | {("ttft_s", "mean"): Spread(0.21, 0.03)})
    (check,) = [each for each in found if (each.side, each.metric, each.statistic) == (CLIENT, "ttft_s", "mean")]
    assert check.chance and not check.within
    assert str(check) == (
        "TTFT mean of the client: 225 ms live, 205 ms as planned, +9.8% (limit 3%), perhaps by chance; "
        "if late, it is 210 ± 30 ms"
    )


def test_the_p99_of_few_requests_decides_nothing() -> None:
    for requests, chance in ((99, True), (100, False)):
        found = checks_of(rows(0, 4)[:requests], 1.0, NO_CHANCE)
        beyond = {each.statistic: each.chance for each in found if each.metric == "tpot_s" and not each.within}
        assert beyond == {"mean": False, "p99": chance}


def test_single_tokens_have_no_time_per_token() -> None:
    lone = [row("a", *[Times(0.1, None)] * 3, output=1)]
    assert {each.metric for each in checks_of(lone, 1.0, NO_CHANCE)} == {"ttft_s"}
    assert quantiles(lone, CLIENT, "tpot_s").mean is None
    assert checks_of([], 1.0, NO_CHANCE) == []


SAME = Agreement(5, 5, None, 0.0)


def test_a_schedule_is_the_same_once_slips_are_taken_out() -> None:
    assert differs(SAME, SAME) is None
    assert differs(SAME._replace(first=ScheduleDifference(0, 2, 1.0, None, None)), SAME) is None


def test_a_schedule_that_is_another_one_is_told_with_its_first_difference() -> None:
    other = Agreement(5, 2, ScheduleDifference(1, 2, 1.0, StepShape("sd", 3, 7), None), 0.0)
    said = differs(other, other)
    assert (
        said is not None
        and "of 5 steps 2 agree, and step 2 of device 1 is SD of 3, 7 new tokens live and none in" in said
    )
