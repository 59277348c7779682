"""Is a tail that is the host's told from one of the devices, and never one of the devices taken for the host's?"""

import re
from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from serving.load.client import RequestTimes
from serving.load.emulator import difference, parse
from serving.load.options import Slos
from serving.load.report import Report
from serving.load.summary import by_class, goodput, summarise
from serving.load.tails import FAMILIES, ModelledLatency, attainment_refusal, modelled_latency, percentile_refusal

BOUNDS_S = (0.1, 0.25, 0.5, 1.0, 2.5, float("inf"))


def modelled(times_s: list[float]) -> ModelledLatency:
    return ModelledLatency(BOUNDS_S, tuple(float(sum(time <= bound for time in times_s)) for bound in BOUNDS_S))


@given(st.lists(st.floats(0.01, 2.4), min_size=1, max_size=300), st.floats(0.01, 2.4))
def test_what_clients_saw_as_the_devices_gave_it_is_never_refused(times_s: list[float], limit_s: float) -> None:
    known, seen = modelled(times_s), np.array(times_s)
    for quantile in (0.5, 0.95, 0.99):
        assert percentile_refusal("TTFT", known, quantile, float(np.quantile(seen, quantile))) is None
    assert attainment_refusal("TTFT", known, limit_s, times_s) is None


@given(st.lists(st.tuples(st.floats(0.01, 2.4), st.booleans()), min_size=1, max_size=300))
def test_a_part_of_what_the_devices_gave_is_never_refused(times: list[tuple[float, bool]]) -> None:
    known, part = modelled([time_s for time_s, _ in times]), [time_s for time_s, is_in in times if is_in]
    for quantile in (0.5, 0.9, 0.99) if part else ():
        seen_s = float(np.quantile(part, quantile))
        assert percentile_refusal("TTFT of chat", known, quantile, seen_s, len(part)) is None


def test_a_part_of_the_requests_may_be_the_slowest_of_all_and_no_slower() -> None:
    known = modelled([0.3] * 90 + [0.7] * 10)
    assert (known.at_most_s(0.5), known.at_most_s(0.5, of=100), known.at_most_s(0.5, of=500)) == (0.5, 0.5, 0.5)
    assert (known.at_most_s(0.5, of=10), known.at_most_s(0.5, of=40)) == (1.0, 0.5)
    found = percentile_refusal("TTFT of chat", known, 0.99, 1.2, of=10)
    assert found and found.sentence.startswith(
        "The p99 of the TTFT of chat is the host's: 1,200 ms as clients saw it, 1,000 ms"
    )


def test_a_tail_of_the_host_is_said_to_be_that() -> None:
    known = modelled([0.3] * 100)
    assert percentile_refusal("TTFT", known, 0.99, 0.52) is None
    found = percentile_refusal("TTFT", known, 0.99, 1.02)
    assert found and found.times == pytest.approx(0.52 / 0.5 / 0.05)
    assert "1,020 ms as clients saw it" in found.sentence and "500 ms at most on the devices" in found.sentence
    late = attainment_refusal("TPOT", known, 1.0, [0.3] * 981 + [1.2] * 19)
    assert late and late.times == pytest.approx(0.2 / 1.0 / 0.05)
    assert "98.1% of the requests had a TPOT" in late.sentence and "100.0% or more" in late.sentence
    assert attainment_refusal("TPOT", known, 1.0, [0.3] * 995 + [1.2] * 5) is None


def test_a_limit_within_a_bucket_is_judged_by_those_below_it() -> None:
    assert modelled([0.3, 0.7]).surely_within(0.9) == 0.5
    assert modelled([0.3, 0.7]).surely_within(0.05) == 0.0


def test_a_histogram_that_did_not_grow_tells_nothing() -> None:
    assert modelled_latency({}) is None
    assert modelled_latency({0.1: 0.0, 1.0: 0.0}) is None
    assert modelled_latency({0.1: 5.0, 1.0: 3.0}) is None


def scrape(counts: tuple[int, ...], late: int) -> str:
    """Metrics after `counts` requests (cumulated), whose latencies of all kinds lie in the same buckets."""
    lines = ""
    for name in FAMILIES.values():
        buckets = "".join(
            f'{name}_bucket{{le="{b}"}} {n}\n' for b, n in zip(("0.5", "1.0", "+Inf"), counts, strict=True)
        )
        lines += f"# TYPE {name} histogram\n{buckets}{name}_count {counts[-1]}\n{name}_sum {counts[-1] * 0.4}\n"
    return (
        f'foreserve_info{{speed="1.0"}} 1\n{lines}foreserve_delivery_delay_seconds_count {counts[-1]}\n'
        f"foreserve_delivery_delay_seconds_sum {late * 0.01}\nforeserve_step_latency_seconds_count {counts[-1]}\n"
        f"foreserve_step_latency_seconds_sum {counts[-1]}\nforeserve_pacing_error_seconds_count {counts[-1]}\n"
        "foreserve_pacing_error_seconds_sum 0\nforeserve_released_tokens_total 100\n"
    )


@pytest.mark.parametrize(("late", "speed"), [(4, None), (40, 0.4), (400, 0.2)])
def test_a_run_is_judged_by_what_it_added_and_a_speed_is_proposed(late: int, speed: float | None) -> None:
    before, after = parse(scrape((10, 10, 10), 0)), parse(scrape((20, 20, 20), late))
    assert before is not None and after is not None
    found = difference(before, after)
    expected = ModelledLatency((0.5, 1.0, float("inf")), (10.0, 10.0, 10.0))
    assert found.modelled == dict.fromkeys(FAMILIES, expected)
    refusal = found.refusal()
    assert refusal is None if speed is None else refusal and f"Try `serve --speed {speed}` (or" in refusal


def a_report(slos: Slos, late: int, late_slo: str = "", **late_s: float) -> Report:
    """A run of 50 requests of ten tokens, on devices that had each latency within 0.5 s; `late` requests, of a class
    of their own if it has a name, came `late_s` to clients."""
    times = [a_request()] * (50 - late) + [replace(a_request(**late_s), slo=late_slo)] * late
    before, after = parse(scrape((0, 0, 0), 0)), parse(scrape((50, 50, 50), 1))
    assert before is not None and after is not None
    figures, verdict = summarise(times), goodput(times, slos, 1.0, 60.0)
    fidelity, classes = difference(before, after), by_class(times)
    return Report("http://x", "m", figures, verdict, slos, fidelity, classes=classes, all_times=times)


def shown(report: Report) -> str:
    """What is printed of it."""
    report.show(Console(width=200, file=(printed := StringIO())))
    return "\n".join(" ".join(line.split()) for line in printed.getvalue().splitlines())


def a_request(first_s: float = 0.1, gap_s: float = 0.01, last_gap_s: float = 0.01) -> RequestTimes:
    times = RequestTimes(0.0)
    outputs_s = [first_s + place * gap_s for place in range(9)]
    for at_s in [*outputs_s, outputs_s[-1] + last_gap_s]:
        times.see(at_s, True, None)
    times.close()
    return times


ALL = Slos(ttft_s=0.5, tpot_s=0.5, e2e_s=0.5)


def test_devices_tails_have_verdicts() -> None:
    found = a_report(ALL, 0)
    assert found.refused is None and not found.doubted and not found.doubted_classes
    assert "?" not in shown(found)
    assert found.to_json()["goodput"]["attainment"] == 1


@pytest.mark.parametrize(
    ("late", "name", "tails"),
    [
        ({"first_s": 0.9}, "TTFT", {"ttft", "e2e"}),
        ({"gap_s": 0.9}, "TPOT", {"tpot", "itl", "e2e"}),
        ({"last_gap_s": 0.9}, "E2E", {"itl", "e2e"}),
    ],
)
def test_each_latency_has_a_check_of_its_own(late: dict[str, float], name: str, tails: set[str]) -> None:
    found = a_report(ALL, 6, **late)
    assert found.fidelity is not None and found.fidelity.refusal() is None  # The means are right.
    assert found.refused and f"88.0% of the requests had a {name} within 500 ms" in found.refused
    assert "Try `serve --speed 0." in found.refused and "(or `--text recorded`)" in found.refused
    assert set(found.doubted) == tails
    written = found.to_json()
    assert written["goodput"]["attainment"] is None
    assert {key for key, value in written["emulator"].items() if key.endswith("p99_refused") and value} == {
        f"{tail}_p99_refused" for tail in tails
    }


def test_a_p99_is_told_without_any_limit_and_says_what_to_try() -> None:
    found = a_report(Slos(), 6, last_gap_s=0.9)
    assert found.refused is None
    text = "\n".join(str(line) for line in found._pace())
    assert "The p99 of the ITL is the host's: 900 ms" in text and "Try `serve --speed 0." in text


def test_no_less_than_a_fifth_of_the_speed_is_asked_for_at_once() -> None:
    found = a_report(ALL, 5, first_s=60.0)
    assert found.refused and "--speed 0.2`" in found.refused


MARK = "What has a ? is this host's, longer than it can have been on the devices."


def test_each_percentile_that_is_the_hosts_is_marked_and_told_of_once() -> None:
    found = a_report(Slos(), 6, first_s=0.9)
    text, written = shown(found), found.to_json()["emulator"]
    assert re.search(r"TTFT \(ms\) 196\.00 100\.00 900\.00\? 900\.00\?", text)
    assert re.search(r"TPOT \(ms\) 10\.00 10\.00 10\.00 10\.00$", text, re.MULTILINE)
    assert text.count("of the TTFT is the host's") == text.count(MARK) == text.count("Try `serve --speed") == 1
    assert written["ttft_p90_refused"] and written["ttft_p50_refused"] is None
    assert "The p50 of the TTFT" in a_report(Slos(), 30, first_s=0.9).to_json()["emulator"]["ttft_p50_refused"]


def test_a_class_has_a_mark_of_its_own_and_a_sentence_where_all_requests_have_none() -> None:
    text = shown(a_report(Slos(), 20, "chat", first_s=0.9))
    assert re.search(r"chat 20 of 20 900\.00 900\.00\? 10\.00 10\.00$", text, re.MULTILINE)
    assert re.search(r"\(none\) 30 of 30 100\.00 100\.00 10\.00 10\.00$", text, re.MULTILINE)
    assert "TTFT of chat" not in text  # that of all requests says it
    few = a_report(Slos(), 1, "chat", first_s=0.52)
    assert not few.doubted_classes  # within what a bucket leaves open
    few = a_report(Slos(), 1, "chat", first_s=0.7)
    assert set(few.doubted_classes) == {("chat", "ttft")} and "ttft" not in few.doubted
    text = shown(few)
    assert "The p99 of the TTFT of chat is the host's: 700 ms as clients saw it, 500 ms at most" in text
    assert text.count(MARK) == text.count("Try `serve --speed") == 1


def test_what_waited_for_a_place_in_flight_is_late_and_not_for_the_host() -> None:
    held = a_report(ALL, 25, "chat", first_s=0.9)
    for times in held.all_times:
        times.held_s = 0.8 if times.slo else 0.0
    assert held.refused is None and not held.doubted and not held.doubted_classes
    assert held.goodput and held.goodput.attainment == 0.5


def test_ends_of_what_was_broken_off_are_not_held_against_the_host() -> None:
    found = a_report(ALL, 6, last_gap_s=0.9)
    assert found.refused and "had a E2E within" in found.refused and "e2e" in found.doubted
    stopped = replace(found, interrupted=True, summary=replace(found.summary, cancelled=3))
    assert stopped.refused is None and "e2e" not in stopped.doubted
    cut = a_request()
    cut.fail("timeout", "no end after 1 s")
    failed = replace(found, all_times=[*found.all_times, cut])
    assert failed.refused is None and "e2e" not in failed.doubted
    turned_away = RequestTimes(0.0, status="429", error="The queue is full.")  # Of which devices heard nothing.
    assert replace(found, all_times=[*found.all_times, turned_away]).refused
