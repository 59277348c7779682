"""Who is admitted: by a key's limits and by what is forecast, with hints that are right, and nothing lost or kept."""

from collections.abc import Iterable

import pytest

from serving.admission.departures import Departures
from serving.admission.forecast import Forecast
from serving.admission.rate_limits import RateLimits
from serving.admission.request_options import InvalidOption, OptionReader
from serving.admission.reservations import Admission
from serving.admission.rules import AdmissionRules
from serving.admission.turn_queue import TurnQueue
from serving.admission_request import AdmissionRequest
from serving.call import Call
from serving.refusals import Reason, Refusal
from serving.scenario.slo import DEFAULT_CLASSES, parse_classes
from serving.security.api_keys import digest
from serving.security.key_names import KeyNames
from serving.types import NEVER, Request
from tests.serving.admission.test_forecast import PACE, forecast

SPEED = 2.0


def admission(requests_per_min: int = 0, tokens_per_min: int = 0, early_rejection: bool = True) -> Admission:
    """Of two keys."""
    rules = AdmissionRules(
        context=None,
        max_queue=1000,
        limits=lambda: RateLimits.of(requests_per_min, tokens_per_min),
        forecast=forecast(),
        early_rejection=early_rejection,
        departures=Departures(1000),
    )
    return Admission(
        reader=OptionReader(parse_classes(DEFAULT_CLASSES, "`c`"), "", ()),
        keys=KeyNames([digest("alpha"), digest("beta")]),
        rules=rules,
        speed=SPEED,
    )


def taken_on(judge: Admission, call: Call, id: str, asked: AdmissionRequest) -> AdmissionRequest:
    """A request that is to be admitted."""
    admitted = judge.admit(call, id, asked, {}, 0, 0.0)
    assert isinstance(admitted, AdmissionRequest), admitted
    return admitted


def refused(judge: Admission, call: Call, id: str, asked: AdmissionRequest) -> Refusal:
    """Why one that is not to be admitted is not."""
    refusal = judge.admit(call, id, asked, {}, 0, 0.0)
    assert isinstance(refusal, Refusal)
    return refusal


def call(key: str = "alpha", **headers: str) -> Call:
    pairs = [(f"x-foreserve-{name.replace('_', '-')}", value) for name, value in headers.items()]
    return Call(0.0, [("authorization", f"Bearer {key}"), *pairs])


def begin(judge: Admission, admitted: AdmissionRequest, id: str) -> Request:
    """What the engine core does with each sequence of a request that was admitted."""
    judge.begin(admitted, 0.0)
    request = Request(id, 0.0, admitted.prompt_tokens, admitted.max_tokens, key=admitted.key)
    judge.rules.forecast.on_submit(0, request, 0.0)
    return request


def test_a_key_is_known_by_its_place_and_never_by_itself() -> None:
    judge = admission()
    assert [taken_on(judge, call(key), "a", AdmissionRequest(9, 9)).key for key in ("alpha", "beta")] == [
        "0",
        "1",
    ]


def test_tokens_are_charged_at_admission_and_given_back_if_they_are_not_generated() -> None:
    judge = admission(tokens_per_min=1000)
    admitted = taken_on(judge, first := call(), "a", AdmissionRequest(100, 400, n=2))
    assert first.answer["x-ratelimit-limit-tokens"] == "1000"
    assert int(first.answer["x-ratelimit-remaining-tokens"]) in range(100, 105)
    refusal = refused(judge, call(), "b", AdmissionRequest(100, 400))
    # 400 are missing, and 1000 come in an emulated minute.
    assert refusal.wait_s == pytest.approx(400 / 1000 * 60, rel=0.05)
    assert refusal.reason is Reason.TOKENS
    for sequence in ("a-0", "a-1"):
        judge.rules.leave(begin(judge, admitted, sequence), made=10, now_s=0.0)
        judge.rules.forecast.on_finish(sequence, made=10)
    taken_on(judge, again := call(), "b", AdmissionRequest(100, 400))
    assert int(again.answer["x-ratelimit-remaining-tokens"]) in range(380, 386)


def test_another_key_has_limits_of_its_own() -> None:
    judge = admission(requests_per_min=1)
    taken_on(judge, call("alpha"), "a", AdmissionRequest(9, 9))
    taken_on(judge, call("beta"), "a", AdmissionRequest(9, 9))
    refusal = refused(judge, call("alpha"), "b", AdmissionRequest(9, 9))
    assert "limit of 1 requests a minute" in refusal.sentence
    assert refusal.wait_s == pytest.approx(60, rel=0.05)


def test_several_prompts_of_one_call_are_one_request() -> None:
    judge = admission(requests_per_min=1)
    one = call()
    for prompt in ("a-0", "a-1"):
        taken_on(judge, one, prompt, AdmissionRequest(9, 9))
    assert one.answer["x-ratelimit-remaining-requests"] == "0"


def test_what_no_retry_will_help_is_refused_for_good() -> None:
    judge = admission(tokens_per_min=1000)
    refusal = refused(judge, call(), "a", AdmissionRequest(101, 500, n=2))
    assert refusal.wait_s == NEVER and refusal.field == "max_tokens"
    assert "1101 tokens" in refusal.sentence and "no more than 1000 a minute" in refusal.sentence
    taken_on(judge, one := call(), "a-0", AdmissionRequest(100, 500))
    assert "1200 tokens" in refused(judge, one, "a-1", AdmissionRequest(100, 500)).sentence
    one.end(None)
    taken_on(judge, call(), "a", AdmissionRequest(100, 900))


def test_a_call_that_ends_before_its_request_has_begun_leaves_nothing_behind() -> None:
    judge = admission(tokens_per_min=1000)
    idle_s = judge.rules.forecast.predict_ttft_s(0, 50, 0.0)
    for _ in range(3):
        taken_on(judge, one := call(), "a", AdmissionRequest(100, 900))
        assert judge.rules.forecast.predict_ttft_s(0, 50, 0.0) > idle_s
        one.end(None)
    assert judge.rules.forecast.predict_ttft_s(0, 50, 0.0) == idle_s
    taken_on(judge, call(), "b", AdmissionRequest(100, 900))


def test_one_for_several_is_forecast_until_the_last_of_them_is_in_flight() -> None:
    judge = admission()
    forecast = judge.rules.forecast
    idle_s = forecast.predict_ttft_s(0, 50, 0.0)
    admitted = taken_on(judge, one := call(), "a", AdmissionRequest(100, 900, n=3))
    for left in (2, 1):
        judge.begin(admitted, 0.0)
        assert judge.set_aside == left and forecast.predict_ttft_s(0, 50, 0.0) > idle_s
    judge.begin(admitted, 0.0)
    assert judge.set_aside == 0 and forecast.predict_ttft_s(0, 50, 0.0) == idle_s
    one.end(None)
    assert judge.set_aside == 0


def test_an_empty_prompt_keeps_no_place_where_requests_take_turns() -> None:
    """It is admitted before vLLM refuses it."""
    judge, turns = admission(), Forecast()
    turns.add(0, TurnQueue(PACE, slots=4, budget=64, kv_tokens=1000))
    turns.on_submit(0, Request("decodes", 0.0, 8, 8), 0.0)
    turns.on_first_token("decodes")
    judge.rules.forecast = turns
    empty = call()
    assert taken_on(judge, empty, "a", AdmissionRequest(0, 8)).places == 1
    empty.end(None)
    assert judge.set_aside == 0


def test_many_at_once_see_those_before_them() -> None:
    judge = admission()
    said = [judge.admit(call(ttft_ms="2000"), str(n), AdmissionRequest(200, 20), {}, 0, 0.0) for n in range(50)]
    taken = [isinstance(each, AdmissionRequest) for each in said]
    assert 2 <= sum(taken) <= 20 and taken == sorted(taken, reverse=True)
    assert isinstance(said[-1], Refusal) and said[-1].reason is Reason.TTFT and 0 < said[-1].wait_s < NEVER
    taken_on(judge, call(slo="batch"), "patient", AdmissionRequest(200, 20))
    taken_on(judge, call(), "indifferent", AdmissionRequest(200, 20))


@pytest.mark.parametrize("headers", [{}, {"ttft_ms": "60000"}])
def test_one_forecast_of_all_devices_judges_a_request_and_finds_its_device(
    headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    judge, forecasts = admission(), list[float]()
    best = judge.rules.forecast.best

    def counted(devices: Iterable[int], prompt_tokens: int, now_s: float) -> tuple[float, int]:
        forecasts.append(now_s)
        return best(devices, prompt_tokens, now_s)

    monkeypatch.setattr(judge.rules.forecast, "best", counted)
    taken_on(judge, call(**headers), "a", AdmissionRequest(200, 20))
    assert forecasts == [0.0]


def test_early_rejection_can_be_switched_off() -> None:
    assert "asked for within 1 ms" in refused(admission(), call(ttft_ms="1"), "a", AdmissionRequest(200, 20)).sentence
    taken_on(admission(early_rejection=False), call(ttft_ms="1"), "a", AdmissionRequest(200, 20))


def test_who_is_refused_for_one_reason_is_not_charged_for_another() -> None:
    judge = admission(requests_per_min=1, tokens_per_min=1000)
    refused(judge, call(ttft_ms="1"), "a", AdmissionRequest(100, 800))
    with pytest.raises(InvalidOption):
        judge.admit(call(slo="gold"), "a", AdmissionRequest(100, 800), {}, 0, 0.0)
    taken_on(judge, call(), "a", AdmissionRequest(100, 800))


def test_the_queue_has_so_many_places_and_says_when_one_is_free() -> None:
    judge = admission()
    for n in range(5):
        judge.rules.departures.note(float(n))
    refusal = judge.rules.judge_places(2, 999, 5.0)
    assert refusal is not None and refusal.reason is Reason.QUEUE and refusal.wait_s == 1.0
    # The next one is told a later moment.
    assert judge.rules.departures.promise_s(5.0) == 2.0
    assert judge.rules.judge_places(1, 999, 5.0) is None
    refusal = judge.rules.judge_places(1001, 0, 5.0)
    assert refusal is not None and (refusal.wait_s, refusal.field) == (NEVER, "n")


def test_how_often_clients_came_while_there_was_room_says_nothing_of_when_a_place_is_free() -> None:
    judge = admission()
    places, rules = judge.rules.max_queue, judge.rules
    for n in range(32):
        assert rules.judge_places(1, 0, 30.0 * n) is None
        rules.departures.note(30.0 * n + 1)
    burst_s = 12 * 3600.0
    assert [rules.judge_places(1, taken, burst_s) for taken in range(places)] == [None] * places
    first = rules.judge_places(1, places, burst_s)
    assert first is not None and first.wait_s == 0.0
    # Once it is full, those that leave tell, and who takes a place that one has left makes nobody forget that.
    for n in range(1, 6):
        rules.departures.note(burst_s + 2.0 * n)
        assert rules.judge_places(1, places - 1, burst_s + 2.0 * n) is None
    full = [rules.judge_places(1, places, burst_s + 10.0) for _ in range(3)]
    assert [refusal and refusal.wait_s for refusal in full] == [2.0, 4.0, 6.0]


def test_a_call_that_is_broken_off_between_its_sequences_gets_back_what_never_began() -> None:
    judge = admission(tokens_per_min=60_000)
    admitted = taken_on(judge, one := call(), "a", AdmissionRequest(100, 1000, n=8))
    first = begin(judge, admitted, "a-0")
    judge.rules.leave(first, made=0, now_s=0.0)
    for end in one.at_end:
        end()
    taken_on(judge, other := call(), "b", AdmissionRequest(1, 1))
    assert int(other.answer["x-ratelimit-remaining-tokens"]) == 60_000 - 100 - 2 and judge.set_aside == 1


@pytest.mark.parametrize("ended", ["before it is admitted", "before it begins"])
def test_one_that_begins_after_its_call_has_ended_is_refunded_once(ended: str) -> None:
    judge, one = admission(tokens_per_min=1000), call()
    if ended == "before it is admitted":
        one.end(None)
    admitted = taken_on(judge, one, "a", AdmissionRequest(100, 800))
    one.end(None)
    assert judge.set_aside == 0
    judge.rules.leave(begin(judge, admitted, "a"), made=500, now_s=0.0)
    taken_on(judge, other := call(), "b", AdmissionRequest(1, 1))
    assert other.answer["x-ratelimit-remaining-tokens"] == str(1000 - 100 - 500 - 2)


def test_a_refusal_is_counted_under_the_class_that_its_request_names() -> None:
    judge = admission()
    judge.reader = OptionReader(parse_classes(DEFAULT_CLASSES, "`c`"), "standard", ())
    full = {
        "standard": judge.judge_places(call(), 1001, 0, 0.0),
        "batch": judge.judge_places(call(slo="batch"), 1001, 0, 0.0),
        "": judge.judge_places(call(slo="unheard of"), 1001, 0, 0.0),
    }
    assert {refusal.slo for refusal in full.values() if refusal} == set(full)
    assert judge.judge_places(None, 1, 0, 0.0) is None
    assert refused(admission(), call(ttft_ms="1"), "a", AdmissionRequest(200, 20)).slo == "custom"
    assert refused(admission(), call(slo="batch", ttft_ms="1"), "a", AdmissionRequest(200, 20)).slo == "batch"


def test_each_round_of_a_beam_search_is_judged_by_its_own_arrival() -> None:
    judge, one, asked = admission(), call(ttft_ms="2000"), AdmissionRequest(20, 1)
    for number in range(2):
        assert isinstance(judge.admit(one, f"cmpl-0-first-beam-{number}", asked, {}, 0, 0.0), AdmissionRequest)
    # In its first round it is late after five seconds, as whoever else is.
    assert isinstance(judge.admit(one, "cmpl-1-first-beam-0", asked, {}, 0, 5.0), Refusal)
    assert isinstance(judge.admit(one, "cmpl-0-second-beam-0", asked, {}, 0, 5.0), AdmissionRequest)
    assert isinstance(judge.admit(one, "named-by-a-client", asked, {}, 0, 5.0), Refusal)


def test_a_beam_search_is_charged_its_prompt_once_and_never_refused_in_its_midst() -> None:
    judge, one, width = admission(tokens_per_min=1000), call(ttft_ms="2000"), 4
    taken_on(judge, one, "cmpl-0-r0-beam-0", AdmissionRequest(500, 1))
    for round in range(1, 64):
        for beam in range(width):
            admitted = taken_on(judge, one, f"cmpl-0-r{round}-beam-{beam}", AdmissionRequest(500 + round, 1))
            judge.rules.leave(begin(judge, admitted, f"{round}-{beam}"), made=1, now_s=0.0)
            judge.rules.forecast.on_finish(f"{round}-{beam}", 1)
    left = 1000 - 501 - 63 * width
    assert one.answer["x-ratelimit-remaining-tokens"] == str(left)
    # An emptied bucket and a full queue keep others out.
    taken_on(judge, call(), "a", AdmissionRequest(left - 1, 1))
    last = judge.admit(one, "cmpl-0-last-beam-0", AdmissionRequest(564, 1), {}, judge.rules.max_queue, 0.0)
    assert isinstance(last, AdmissionRequest)
    assert refused(judge, call(), "b", AdmissionRequest(1, 1)).reason is Reason.TOKENS
    one.end(None)
    # Two rounds never began: the first one is refunded with its prompt, the last one without.
    assert int(judge.rules.limits_of("0").headers(0.0, SPEED)["x-ratelimit-remaining-tokens"]) == 501


@pytest.mark.parametrize(("speed", "said"), [(0.05, "1200s"), (1.0, "60s"), (1000.0, "0.06s"), (7.0, "8.572s")])
def test_the_time_until_a_limit_is_whole_again_is_a_plain_number(speed: float, said: str) -> None:
    limits = RateLimits.of(0, 100_000)
    limits.charge(False, 100_000, 0.0)
    assert limits.headers(0.0, speed)["x-ratelimit-reset-tokens"] == said
