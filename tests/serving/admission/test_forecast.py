"""Forecasts of the time to first token: beside what the real scheduler and engine make of the same requests."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from device_model.condition import Condition
from device_model.step import FloatArray, StepPlan
from serving.admission.answer_lengths import AnswerLengths, size_of
from serving.admission.device_queue import DeviceQueue
from serving.admission.forecast import Forecast
from serving.admission.forecast_feed import ForecastFeed
from serving.admission.step_times import Pace
from serving.admission.turn_queue import TurnQueue
from serving.clock import VirtualClock
from serving.cluster.node import Node, State
from serving.device.device_spec import DeviceSpec
from serving.scenario.scenario import Scenario
from serving.simulation.simulator import Simulator
from serving.types import NEVER, Release, Request
from tests.serving.device.test_engine import DEVICE, LIMITS, Bench

PACE = Pace(DEVICE, LIMITS.max_num_seqs, LIMITS.max_num_batched_tokens)


def forecast() -> Forecast:
    made = Forecast()
    made.add(0, DeviceQueue(PACE, LIMITS.max_num_seqs, LIMITS.max_num_batched_tokens, LIMITS.kv_capacity_tokens))
    return made


def poisson(rate: float, count: int) -> list[Request]:
    rng = np.random.default_rng(7)
    arrivals = np.cumsum(rng.exponential(1 / rate, count))
    prompts, outputs = rng.lognormal(5, 0.8, count).astype(int) + 1, rng.lognormal(4, 0.6, count).astype(int) + 1
    return [Request(str(i), float(arrivals[i]), int(prompts[i]), int(outputs[i])) for i in range(count)]


def tell(told: Forecast, release: Release) -> None:
    """As the edge does."""
    for chunk in release.chunks:
        if chunk.first == 0:
            told.on_first_token(chunk.request_id)
        if chunk.finish is not None:
            told.on_finish(chunk.request_id, chunk.first + 1)
    if release.record is not None:
        told.on_step(release.record)


def predicted_and_actual(requests: list[Request]) -> tuple[list[float], list[float]]:
    """Seconds to the first token of each, as predicted at its arrival, and as it came."""
    told, coming = forecast(), list(requests)
    predicted, first = [], {}
    for release in Bench(VirtualClock(), requests).run().releases:
        while coming and coming[0].arrival_s < release.at_s:
            request = coming.pop(0)
            predicted.append(told.predict_ttft_s(0, request.prompt_tokens, request.arrival_s))
            told.on_submit(0, request, request.arrival_s)
        first |= {chunk.request_id: release.at_s for chunk in release.chunks if chunk.first == 0}
        tell(told, release)
    return predicted, [first[r.id] - r.arrival_s for r in requests]


def simulated_ttfts(scenario: Scenario, requests: list[Request]) -> tuple[FloatArray, FloatArray]:
    """The same in virtual time, of a device of the scenario."""
    told, predicted, arrived_s = Forecast(), list[float](), [0.0]
    simulated = Simulator(scenario, leaps=False, observer=ForecastFeed(told, scenario, lambda: arrived_s[-1]))
    outcomes = []
    for request in requests:
        while simulated.next_end(request.arrival_s):
            pass
        arrived_s.append(request.arrival_s)
        predicted.append(told.predict_ttft_s(0, request.prompt_tokens, request.arrival_s))
        outcomes.append(simulated.submit(request))
    while simulated.next_end(NEVER):
        pass
    return np.array(predicted), np.array([outcome.ttft_s for outcome in outcomes])


def test_the_next_stream_is_as_soon_as_a_short_prompt_and_as_fast_as_it_and_the_others() -> None:
    told = forecast()
    told.add(1, DeviceQueue(PACE, LIMITS.max_num_seqs, LIMITS.max_num_batched_tokens, LIMITS.kv_capacity_tokens))
    told.on_submit(0, Request("a", 0.0, 100, 50), 0.0)
    # It has been admitted, to the idle device.
    told.on_submit(1, Request("b", 0.0, 100, 50), 0.0)
    told.on_submit(0, Request("c", 0.0, 5000, 50), 0.0)
    assert told.next_stream(0.0) == (told.predict_ttft_s(1, 1, 0.0), told.tokens_per_s(1, 1))
    told.close(1)
    assert told.next_stream(0.0) == (told.predict_ttft_s(0, 1, 0.0), told.tokens_per_s(0, 2))
    told.close(0)
    assert told.next_stream(0.0) == (0.0, 0.0)


def test_sequences_are_as_fast_as_the_whole_batch_of_a_device_that_they_are_some_of() -> None:
    told = forecast()
    alone = told.tokens_per_s(0, 1)
    for number in range(3):
        told.on_submit(0, Request(f"r{number}", 0.0, 100, 50), 0.0)
    assert told.tokens_per_s(0, 1) == told.tokens_per_s(0, 3) < alone
    assert told.tokens_per_s(0, 4) < told.tokens_per_s(0, 3)


@pytest.mark.parametrize(("rate", "near"), [(0.3, 0.05), (1.2, 0.3), (3.0, 0.3)], ids=["idle", "busy", "overloaded"])
def test_predictions_are_right_on_average_and_mostly_near(rate: float, near: float) -> None:
    predicted, actual = predicted_and_actual(poisson(rate, 150))
    ratio = np.array(predicted) / np.array(actual)
    assert np.median(ratio) == pytest.approx(1, abs=0.15)
    assert np.quantile(abs(ratio - 1), 0.75) < near


@pytest.mark.parametrize("rate", [1.0, 3.0])
def test_predictions_are_right_on_average_where_steps_draft_and_take_many_times_as_long(rate: float) -> None:
    predicted, actual = simulated_ttfts(Scenario(mode="fixed-sd"), poisson(rate, 150))
    assert np.mean(predicted) == pytest.approx(np.mean(actual), rel=0.05)
    assert np.quantile(abs(predicted / actual - 1), 0.75) < 0.1


@pytest.mark.parametrize(("slots", "rate"), [(4, 4.0), (8, 6.0), (16, 8.0)])
@pytest.mark.parametrize("mode", ["fixed-sd", "fixed-ar"])
def test_predictions_are_right_on_average_where_requests_wait_for_a_place(mode: str, slots: int, rate: float) -> None:
    predicted, actual = simulated_ttfts(Scenario(mode=mode, max_num_seqs=slots), poisson(rate, 150))
    assert np.quantile(actual, 0.9) > 5 * actual[0]
    assert np.mean(predicted) == pytest.approx(np.mean(actual), rel=0.12)
    assert np.quantile(abs(predicted / actual - 1), 0.75) < 0.25


@pytest.mark.slow
@pytest.mark.parametrize("rate", [2.0, 8.0, 20.0])
def test_predictions_are_right_on_average_where_the_engine_plans_a_step_ahead(rate: float) -> None:
    predicted, actual = simulated_ttfts(Scenario(hardware="h100", mode="fixed-ar"), poisson(rate, 200))
    assert np.mean(predicted) == pytest.approx(np.mean(actual), rel=0.1)


@pytest.mark.parametrize("chunk", [64, 256])
@pytest.mark.parametrize("mode", ["fixed-sd", "fixed-ar"])
def test_predictions_are_right_on_average_where_prompts_come_in_chunks(mode: str, chunk: int) -> None:
    scenario = Scenario(hardware="elmoe3d-4gb", mode=mode, prefill_chunk=chunk)
    predicted, actual = simulated_ttfts(scenario, poisson(0.6, 100))
    assert np.mean(predicted) == pytest.approx(np.mean(actual), rel=0.05)
    assert np.quantile(abs(predicted / actual - 1), 0.75) < 0.15


@pytest.mark.slow
@pytest.mark.parametrize(("hardware", "slots", "rate"), [("4gb", 64, 2.0), ("4gb", 64, 8.0), ("8gb", 16, 6.0)])
@pytest.mark.parametrize(("prefill", "near"), [("decode-first", 0.06), ("prefill-first", 0.12)])
def test_predictions_are_right_on_average_where_prompts_have_steps_of_their_own(
    prefill: str, near: float, hardware: str, slots: int, rate: float
) -> None:
    scenario = Scenario(hardware=f"elmoe3d-{hardware}", mode="fixed-ar", prefill=prefill, max_num_seqs=slots)
    predicted, actual = simulated_ttfts(scenario, poisson(rate, 150))
    assert np.mean(predicted) == pytest.approx(np.mean(actual), rel=near)
    assert np.quantile(abs(predicted / actual - 1), 0.75) < 0.15


@pytest.mark.parametrize("mode", ["fixed-sd", "tau"])
def test_predictions_are_right_on_average_where_turns_draft(mode: str) -> None:
    predicted, actual = simulated_ttfts(Scenario(mode=mode, prefill="decode-first"), poisson(2.0, 150))
    assert np.mean(predicted) == pytest.approx(np.mean(actual), rel=0.15)


def test_an_idle_device_has_the_first_token_after_one_step() -> None:
    want = DEVICE.probe(StepPlan.of((128, 0))).latency_s[0]
    assert forecast().predict_ttft_s(0, 128, 5.0) == pytest.approx(want, rel=1e-9)


def test_a_prompt_behind_another_waits_for_it_and_one_behind_a_full_batch_for_a_place() -> None:
    told = forecast()
    waits = []
    for i in range(LIMITS.max_num_seqs + 2):
        waits.append(told.predict_ttft_s(0, 200, 0.0))
        told.on_submit(0, Request(str(i), 0.0, 200, 50), 0.0)
        told.on_first_token(str(i))
    assert waits == sorted(waits)
    assert waits[LIMITS.max_num_seqs] > waits[LIMITS.max_num_seqs - 1] + 40 * PACE.decode_s(LIMITS.max_num_seqs, 200)


def test_a_device_that_is_slower_than_its_model_is_found_out_while_it_works() -> None:
    told, model = forecast(), forecast()
    requests, ratios = poisson(3.0, 60), []
    for release in Bench(VirtualClock(), requests).run().releases:
        while requests and requests[0].arrival_s < release.at_s:
            for each in (told, model):
                each.on_submit(0, requests[0], requests[0].arrival_s)
            requests.pop(0)
        record = release.record
        assert record is not None
        slow = type(record)(
            **{f: getattr(record, f) for f in record.__struct_fields__} | {"latency_s": 2 * record.latency_s}
        )
        tell(told, Release(0, release.at_s, release.chunks, record=slow))
        tell(model, release)
        if model.predict_ttft_s(0, 128, 1e9) > 2 * forecast().predict_ttft_s(0, 128, 0.0):
            ratios.append(told.predict_ttft_s(0, 128, 1e9) / model.predict_ttft_s(0, 128, 1e9))
    assert len(ratios) > 20
    assert np.median(ratios) == pytest.approx(2, rel=0.15)


EVENTS = st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["first", "finish"]), st.integers(1, 900)), max_size=40)


@given(EVENTS)
def test_whatever_happens_a_device_that_is_done_is_as_idle_as_before(events: list[tuple[int, str, int]]) -> None:
    told, state = forecast(), dict[str, str]()
    for number, event, tokens in events:
        id = str(number)
        if id not in state:
            told.on_submit(0, Request(id, 0.0, tokens, tokens), 1.0)
            state[id] = "waiting"
        elif event == "first" and state[id] == "waiting":
            told.on_first_token(id)
            state[id] = "decoding"
        elif event == "finish":
            told.on_finish(id, tokens)
            del state[id]
        assert 0 < told.predict_ttft_s(0, 100, 2.0) < float("inf")
    for id in state:
        told.on_finish(id, 1)
        told.on_finish(id, 1)  # its client went away as it ended
    assert told.predict_ttft_s(0, 128, 2.0) == forecast().predict_ttft_s(0, 128, 2.0)


def test_what_a_crowd_taught_does_not_turn_people_away_from_an_idle_device() -> None:
    fresh, told = forecast(), forecast()
    alone_s = fresh.predict_ttft_s(0, 100, 0.0)
    crowd = [Request(str(i), 0.0, 8_000, 10) for i in range(6)]
    for request in crowd:
        told.on_submit(0, request, 0.0)
    releases = Bench(VirtualClock(), crowd).run().releases
    for release in releases:
        tell(told, release)
    assert told.predict_ttft_s(0, 100, releases[-1].at_s) == pytest.approx(alone_s)


def test_of_devices_that_have_come_and_gone_nothing_is_kept_though_their_last_step_is_told_of_later() -> None:
    scenario, told = Scenario(devices=1), Forecast()
    spec = DeviceSpec.of(scenario, scenario.members[0])
    feed, figures = ForecastFeed(told, scenario, lambda: 0.0), spec.device_limits(spec.load())
    for index in range(3):
        last = Request(f"last of {index}", 0.0, 60, 1)
        feed.on_change(Node(index, spec, figures, None, None, None, State.SERVING))
        told.on_submit(index, last, 0.0)
        feed.on_change(Node(index, spec, figures, None, None, None, State.LOST))
        assert told.tokens_per_s(index, 1) > 0  # one that is lost may come back
        feed.on_change(Node(index, spec, figures, None, None, None, State.GONE))
        assert told.devices == [] and told.tokens_per_s(index, 1) == 0
        [release] = Bench(VirtualClock(), [last]).run().releases
        told.on_release(release.chunks)
        feed.on_step(structs.replace(release.record, device=index))
    assert told.next_stream(0.0) == (0.0, 0.0) and told._queues == {} == told._at


def test_what_steps_have_taught_is_kept_until_a_device_is_in_another_condition() -> None:
    scenario, told = Scenario(devices=1), Forecast()
    spec = DeviceSpec.of(scenario, scenario.members[0])
    feed = ForecastFeed(told, scenario, lambda: 0.0)

    def change(spec: DeviceSpec) -> None:
        feed.on_change(Node(0, spec, spec.device_limits(spec.load()), None, None, None, State.SERVING))

    change(spec)
    queue = told._queues[0]
    queue.slowdown[:] = taught = [2.0, 3.0, 1.5]
    change(spec.in_condition(Condition()))  # A pause tells of each device, with nothing new.
    assert queue.slowdown == taught
    change(spec.in_condition(Condition(clock_share=0.5)))
    assert queue.slowdown == [1.0, 1.0, 1.0]


def test_a_prompt_whose_only_token_was_overdue_is_not_taken_off_those_that_come_after_it() -> None:
    fresh, told = forecast(), forecast()
    lone = Request("lone", 0.0, 60, 1)
    told.on_submit(0, lone, 0.0)
    [release] = Bench(VirtualClock(), [lone]).run().releases
    tell(told, Release(0, release.at_s, [], record=release.record))
    tell(told, Release(0, release.at_s, release.chunks))
    for each in (fresh, told):
        each.on_submit(0, Request("next", 1.0, 8_000, 10), 1.0)
    assert told.predict_ttft_s(0, 100, 1.0) == fresh.predict_ttft_s(0, 100, 1.0)


class EvenPace:
    """A device each of whose steps takes 30 ms."""

    schedules_ahead = False

    def step_s(self, *_: float) -> float:
        return 0.03

    prefill_s = decode_s = step_s

    def reading_s(self, *_: float) -> float:
        return 0.0


CONTEXT, CHATS, SMALL = 32_768, 200, 16


def taught(kind: type[DeviceQueue], share: float) -> DeviceQueue:
    """A queue that has served chats, which may have all of the context, and a `share` of requests that take all that
    they ask for; now chats have all of its places."""
    queue = kind(EvenPace(), 64, 8192, 10**9)
    rng = np.random.default_rng(3)
    for number, small in enumerate(rng.random(500) < share):
        most, made = (SMALL, SMALL) if small else (CONTEXT - 100, CHATS)
        queue.add(Request(str(number), 0.0, 100, most))
        queue.decode(str(number), 1)
        queue.finish(str(number), made)
    for number in range(queue.slots):
        queue.add(Request(f"chat {number}", 0.0, 100, CONTEXT - 100))
        queue.decode(f"chat {number}", 1)
    if isinstance(queue, TurnQueue):
        queue.decoded = True
    return queue


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("kind", [DeviceQueue, TurnQueue])
@pytest.mark.parametrize("waiting", [0, 256])
def test_requests_that_take_all_they_ask_for_do_not_make_those_long_that_may_have_all_of_the_context(
    kind: type[DeviceQueue], share: float, waiting: int
) -> None:
    chats, mixed = taught(kind, 0.0), taught(kind, share)
    for queue in (chats, mixed):
        for number in range(waiting):
            queue.add(Request(f"waits {number}", 0.0, 100, CONTEXT - 100))
    alone_s = chats.ttft_s(100, 0.0)
    assert alone_s == pytest.approx((1 + waiting / 64) * 0.03 * CHATS, rel=0.25)
    assert alone_s / 2 < mixed.ttft_s(100, 0.0) < 2 * alone_s


def up_to(max_tokens: int, takes_all: bool = False) -> Request:
    return Request("one", 0.0, 100, max_tokens, takes_all=takes_all)


def test_the_first_answer_of_a_device_tells_how_long_others_are_and_each_size_its_own() -> None:
    answers = AnswerLengths()
    assert answers.share(size_of(up_to(CONTEXT))) == 1.0
    answers.learn(up_to(CONTEXT), 320)
    answers.learn(up_to(CONTEXT), 0)
    # Of another size nothing has ended: a prompt that is longer leaves less of the context.
    assert answers.share(size_of(up_to(CONTEXT))) == answers.share(size_of(up_to(CONTEXT // 2))) == 160 / CONTEXT
    answers.learn(up_to(SMALL), SMALL)
    assert answers.share(size_of(up_to(SMALL))) == answers.share(size_of(up_to(2 * SMALL))) == 1.0
    assert answers.share(size_of(up_to(CONTEXT))) == 160 / CONTEXT
    for _ in range(200):
        answers.learn(up_to(CONTEXT), 3200)
    assert answers.share(size_of(up_to(CONTEXT))) == pytest.approx(3200 / CONTEXT, rel=0.01)


@pytest.mark.parametrize("kind", [DeviceQueue, TurnQueue])
def test_of_requests_that_take_all_that_is_known_whatever_others_took(kind: type[DeviceQueue]) -> None:
    queue = kind(PACE, 64, LIMITS.max_num_batched_tokens, CONTEXT * 512)
    for _ in range(9):
        queue.answers.learn(up_to(900), 9)
    assert queue.answers.share(size_of(up_to(900))) == 0.01
    assert queue.answers.share(size_of(up_to(900, takes_all=True))) == 1.0
    queue.answers.learn(up_to(900, takes_all=True), 900)
    assert queue.answers.share(size_of(up_to(900))) == 0.01

    def waits_s(takes_all: bool) -> float:
        busy = kind(PACE, 1, LIMITS.max_num_batched_tokens, CONTEXT * 512, answers=queue.answers)
        for number in range(2):
            busy.add(Request(str(number), 0.0, 100, 900, takes_all=takes_all))
        busy.decode("0", 1)
        return busy.ttft_s(100, 0.0)

    assert waits_s(takes_all=True) > 10 * waits_s(takes_all=False)


def test_more_that_decodes_than_there_are_places_puts_no_prompt_in_the_way() -> None:
    queue = DeviceQueue(PACE, 4, LIMITS.max_num_batched_tokens, LIMITS.kv_capacity_tokens)
    for i in range(8):  # Half of them from a device that was lost.
        queue.add(Request(str(i), 0.0, 100, 50))
        queue.decode(str(i), 0)
    queue.add(Request("waits", 0.0, 1000, 50))
    queue.begin(0.0)
    assert queue.under_way == 0
