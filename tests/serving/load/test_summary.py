import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.load.client import RequestTimes
from serving.load.latencies import itl_s, tpot_s
from serving.load.options import Slos
from serving.load.summary import Quantiles, goodput, meets, summarise

gaps = st.lists(st.floats(1e-6, 10), max_size=20)


def trace_of(first_s: float, gaps_s: list[float], tokens: int | None = None, by_chunk: list[int] = ()) -> RequestTimes:
    times = RequestTimes(0.0)
    counts = np.cumsum(by_chunk).tolist() or [0] * (len(gaps_s) + 1)
    for at_s, n in zip(first_s + np.cumsum([0.0, *gaps_s]), counts, strict=True):
        times.see(float(at_s), True, (3, n) if n else None)
    times.output_tokens = tokens or counts[-1] or None
    times.close()
    return times


@given(gaps, st.integers(0, 60))
def test_itl_has_a_sample_a_token_and_sums_up_to_the_stream(gaps_s, more):
    n = len(gaps_s) + 1 + more
    samples = itl_s(trace_of(1.0, gaps_s, n))
    assert len(samples) == n - 1
    assert samples.sum() == pytest.approx(sum(gaps_s))


@given(st.lists(st.tuples(st.floats(1e-6, 10), st.integers(1, 5)), max_size=20), st.integers(1, 5))
def test_itl_shares_each_gap_among_the_tokens_that_ended_it(chunks, first):
    gaps_s, k = [gap for gap, _ in chunks], [n for _, n in chunks]
    times = trace_of(1.0, gaps_s, by_chunk=[first, *k])
    expected = [0.0] * (first - 1) + [gap / n for gap, n in chunks for _ in range(n)]
    assert itl_s(times) == pytest.approx(expected, abs=1e-9)
    if times.tokens > 1:
        assert tpot_s(times) == pytest.approx(itl_s(times).mean())


def test_mean_itl_is_right_when_a_late_server_coalesces():
    steady, late = trace_of(1.0, [0.02] * 40, 41), trace_of(1.0, [0.02] * 20 + [0.04] * 10, 41)
    for times in (steady, late):
        assert itl_s(times).mean() == pytest.approx(0.02)
        assert tpot_s(times) == pytest.approx(0.02)
    assert np.percentile(itl_s(late), 99) > 0.02  # The hitch still shows.


def test_a_server_that_counts_too_few_tokens_does_not_hide_gaps():
    assert itl_s(trace_of(1.0, [0.1, 0.1], 1)) == pytest.approx([0.1, 0.1])


@given(st.lists(st.floats(0, 1e3), min_size=1, max_size=50))
def test_quantiles_are_ordered_and_within_the_samples(values):
    q = Quantiles.of(np.array(values))
    assert min(values) <= q.p50 <= q.p90 <= q.p99 <= max(values)
    assert (q.mean, q.count) == (pytest.approx(np.mean(values)), len(values))


def test_quantiles_of_nothing_are_unknown():
    assert Quantiles.of(np.zeros(0)) == Quantiles(None, None, None, None, 0)
    assert summarise([]).duration_s == 0


def test_figures_are_in_the_reports_seconds():
    times = trace_of(0.5, [0.1] * 9, 10)
    summary = summarise([times], speed=0.1)
    assert summary.ttft_s.mean == pytest.approx(0.05)
    assert summary.tpot_s.mean == pytest.approx(0.01)
    assert summary.e2e_s.mean == pytest.approx(0.14)
    assert summary.output_tokens_per_s == pytest.approx(10 / 0.14)


def test_failed_and_cancelled_requests_are_counted_and_measured_as_none():
    failed, cancelled = RequestTimes(0.0), RequestTimes(0.0, cancelled=True)
    failed.fail("500", "no")
    failed.fail("stream", "later")
    summary = summarise([trace_of(0.5, [0.1]), failed, cancelled])
    assert (summary.requests, summary.completed, summary.failed, summary.cancelled) == (3, 1, 1, 1)
    assert [(error.status, error.message) for error in summary.errors] == [("500", "no")]
    assert summary.ttft_s.count == 1


def test_a_server_that_goes_away_is_measured_over_the_whole_run():
    all_times = [trace_of(0.5, [0.1]), *(RequestTimes(float(at_s)) for at_s in range(1, 11))]
    for times in all_times[1:]:
        times.fail("connection", "Connection refused")
    summary = summarise(all_times)
    assert summary.duration_s == 10 and summary.request_throughput_per_s == 0.1
    all_times[-1].cancelled = True
    assert summarise(all_times).duration_s == 9
    assert summarise(all_times[:1]).duration_s == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("slos", "met"),
    [
        (Slos(ttft_s=0.6, tpot_s=0.11, e2e_s=1.6), True),
        (Slos(ttft_s=0.4), False),
        (Slos(tpot_s=0.09), False),
        (Slos(e2e_s=1.0), False),
    ],
)
def test_goodput_wants_every_slo_kept(slos, met):
    times, failed = trace_of(0.5, [0.1] * 10, 11), RequestTimes(0.0)
    failed.fail("500", "no")
    assert meets(times, slos) is met
    good = goodput([times, failed], slos, 1.0, duration_s=2.0)
    assert good.attainment == (0.5 if met else 0)
    assert good.per_s == (0.5 if met else 0)
    assert goodput([times], Slos(), 1.0, 2.0) is None


@pytest.mark.parametrize(
    ("slos", "attainment"),
    [(Slos(ttft_s=0.6), 0.5), (Slos(ttft_s=3.0), 1.0), (Slos(e2e_s=2.0), 1 / 3), (Slos(tpot_s=0.2), 1.0)],
)
def test_who_had_missed_a_limit_when_it_was_cancelled_is_no_survivor(slos, attainment):
    """As with Ctrl-C of a run against a server that hangs."""
    silent = RequestTimes(1.0, cancelled=True, cancelled_s=3.5)
    begun = RequestTimes(0.0, cancelled=True, cancelled_s=3.5)
    begun.see(0.5, True, None)
    all_times = [trace_of(0.5, [0.1]), silent, begun, RequestTimes(3.3, cancelled=True, cancelled_s=3.5)]
    assert goodput(all_times, slos, 1.0, 2.0).attainment == pytest.approx(attainment)


def test_when_it_was_cancelled_counts_by_the_reports_clock():
    all_times = [trace_of(0.5, [0.1]), RequestTimes(1.0, cancelled=True, cancelled_s=3.5)]
    assert goodput(all_times, Slos(ttft_s=3.0), 2.0, 2.0).attainment == 0.5


def test_failures_that_differ_in_numbers_only_are_one_kind():
    all_times = [RequestTimes(0.0) for _ in range(3)]
    for times, error in zip(all_times, ["late by 512 ms", "late by 7 ms", "too long"], strict=True):
        times.fail("429", error)
    failures = summarise(all_times).errors
    assert [(each.message, each.count) for each in failures] == [("late by 512 ms", 2), ("too long", 1)]


def test_a_lone_token_without_text_comes_with_the_end_and_nothing_at_all_is_a_failure():
    lone, nothing = RequestTimes(0.0), RequestTimes(0.0)
    for times, tokens in ((lone, 1), (nothing, 0)):
        times.see(1.5, False, None)
        times.prompt_tokens, times.output_tokens = 3, tokens
        times.close()
    assert lone.completed and (lone.outputs_s, lone.counts) == ([1.5], [1])
    assert not nothing.completed and "without any output" in nothing.error
