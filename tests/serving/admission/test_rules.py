"""Who is admitted: by a key's limits and by what is forecast, with hints that are right, and nothing lost or kept."""

import time
from functools import partial

import pytest

from serving.admission.rate_limits import Keys, Limits
from serving.admission.refusals import BadWish, NeverAllowed, TurnedAway
from serving.admission.request_options import WishReader
from serving.admission.rules import Admission, Admitted, Work
from serving.call import Call
from serving.clock import WallClock
from serving.scenario.slo import DEFAULT_CLASSES, parse_classes
from serving.security.api_keys import digest
from serving.types import Request
from tests.serving.admission.test_forecast import forecast

SPEED = 2.0


def admission(requests_per_min: int = 0, tokens_per_min: int = 0, early_rejection: bool = True) -> Admission:
    """Of two keys, at an instant that stays: its clock has hardly begun."""
    return Admission(
        reader=WishReader(parse_classes(DEFAULT_CLASSES, "`c`"), "", ()),
        keys=Keys([digest("alpha"), digest("beta")]),
        limits=partial(Limits.of, requests_per_min, tokens_per_min),
        forecast=forecast(),
        clock=WallClock(time.time(), SPEED),
        early_rejection=early_rejection,
    )


def call(key: str = "alpha", **headers: str) -> Call:
    pairs = [(f"x-foreserve-{name.replace('_', '-')}", value) for name, value in headers.items()]
    return Call(0.0, [("authorization", f"Bearer {key}"), *pairs])


def begin(judge: Admission, admitted: Admitted, id: str) -> Request:
    """What the engine core does with each sequence of a request that was admitted."""
    judge.begin(admitted)
    request = Request(id, 0.0, admitted.work.prompt_tokens, admitted.work.max_tokens, key=admitted.key)
    judge.forecast.on_submit(0, request, 0.0)
    return request


def test_a_key_is_known_by_its_place_and_never_by_itself() -> None:
    judge = admission()
    assert [judge.admit(call(key), {}, Work("a", 9, 9)).key for key in ("alpha", "beta")] == ["0", "1"]


def test_tokens_are_charged_at_admission_and_given_back_if_they_are_not_generated() -> None:
    judge = admission(tokens_per_min=1000)
    admitted = judge.admit(first := call(), {}, Work("a", 100, 400, n=2))
    assert first.answer["x-ratelimit-limit-tokens"] == "1000"
    assert int(first.answer["x-ratelimit-remaining-tokens"]) in range(100, 105)
    with pytest.raises(TurnedAway) as caught:
        judge.admit(call(), {}, Work("b", 100, 400))
    # 400 are missing, and 1000 come in an emulated minute, which is half a real one.
    assert caught.value.retry_after_s == pytest.approx(400 / 1000 * 60 / SPEED, rel=0.05)
    assert caught.value.reason == "tokens_per_min"
    for sequence in ("a-0", "a-1"):
        judge.end(begin(judge, admitted, sequence), made=10)
    judge.admit(again := call(), {}, Work("b", 100, 400))
    assert int(again.answer["x-ratelimit-remaining-tokens"]) in range(380, 386)


def test_another_key_has_limits_of_its_own() -> None:
    judge = admission(requests_per_min=1)
    judge.admit(call("alpha"), {}, Work("a", 9, 9))
    judge.admit(call("beta"), {}, Work("a", 9, 9))
    with pytest.raises(TurnedAway, match="limit of 1 requests a minute") as caught:
        judge.admit(call("alpha"), {}, Work("b", 9, 9))
    assert caught.value.retry_after_s == pytest.approx(30, rel=0.05)


def test_several_prompts_of_one_call_are_one_request() -> None:
    judge = admission(requests_per_min=1)
    one = call()
    for prompt in ("a-0", "a-1"):
        judge.admit(one, {}, Work(prompt, 9, 9))
    assert one.answer["x-ratelimit-remaining-requests"] == "0"


def test_what_no_retry_will_help_is_refused_for_good() -> None:
    judge = admission(tokens_per_min=1000)
    with pytest.raises(NeverAllowed, match=r"1101 tokens .* no more than 1000 a minute"):
        judge.admit(call(), {}, Work("a", 101, 500, n=2))
    judge.admit(one := call(), {}, Work("a-0", 100, 500))
    with pytest.raises(NeverAllowed, match="1200 tokens"):
        judge.admit(one, {}, Work("a-1", 100, 500))
    one.end(None)
    judge.admit(call(), {}, Work("a", 100, 900))


def test_a_call_that_ends_before_its_request_has_begun_leaves_nothing_behind() -> None:
    judge = admission(tokens_per_min=1000)
    idle_s = judge.forecast.predict_ttft_s(0, 50, 0.0)
    for _ in range(3):
        judge.admit(one := call(), {}, Work("a", 100, 900))
        assert judge.forecast.predict_ttft_s(0, 50, 0.0) > idle_s
        one.end(None)
    assert judge.forecast.predict_ttft_s(0, 50, 0.0) == idle_s
    judge.admit(call(), {}, Work("b", 100, 900))


def test_many_at_once_see_those_before_them() -> None:
    judge = admission()
    taken = 0
    with pytest.raises(TurnedAway) as caught:
        for taken in range(50):
            judge.admit(call(ttft_ms="2000"), {}, Work(str(taken), 200, 20))
    assert 2 <= taken <= 20
    assert caught.value.reason == "ttft" and caught.value.retry_after_s >= 1
    judge.admit(call(slo="batch"), {}, Work("patient", 200, 20))
    judge.admit(call(), {}, Work("indifferent", 200, 20))


def test_early_rejection_can_be_switched_off() -> None:
    with pytest.raises(TurnedAway, match=r"predicted after .* ms, and was asked for within 1 ms"):
        admission().admit(call(ttft_ms="1"), {}, Work("a", 200, 20))
    admission(early_rejection=False).admit(call(ttft_ms="1"), {}, Work("a", 200, 20))


def test_who_is_refused_for_one_reason_is_not_charged_for_another() -> None:
    judge = admission(requests_per_min=1, tokens_per_min=1000)
    for refused in (call(ttft_ms="1"), call(slo="gold")):
        with pytest.raises((TurnedAway, BadWish)):
            judge.admit(refused, {}, Work("a", 100, 800))
    judge.admit(call(), {}, Work("a", 100, 800))
