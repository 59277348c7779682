"""The trace of a call, and its spans: do they say what the device did with it, and for how long?"""

import msgspec
import pytest

from serving.call import TEXT_ROUTES, Call
from serving.edge.refusals import Overflow
from serving.refusals import Reason, Refusal
from serving.telemetry.tracing.attributes import of_steps
from serving.telemetry.tracing.call_trace import MAX_STEP_SPANS, SequenceTrace
from serving.telemetry.tracing.spans import Span, span_of
from serving.types import Request
from tests.serving.telemetry.tracing.emulate import ROUTE, Edge


def names(span: Span) -> list[str]:
    return [child.name for child in span.children]


def spans(edge: Edge) -> dict[str, Span]:
    """The root spans by the id of the request."""
    return {call_trace.sequences[0].flight.request.id: span_of(call_trace, "moe", 1.0) for call_trace in edge.told}


def check_tree(span: Span) -> None:
    """Children lie within, and all but nested ones follow one another."""
    for child in span.children:
        assert span.start_s <= child.start_s <= child.end_s <= span.end_s, (span.name, child.name)
        check_tree(child)
    for one, next in zip(span.children, span.children[1:], strict=False):
        if not next.name.startswith("sequence"):
            assert next.start_s >= one.end_s - 1e-9, (one.name, next.name)


def test_phases_of_a_request_follow_one_another_and_say_how_long_they_took() -> None:
    edge = Edge()
    edge.submit(Request("a", 1.0, 100, 20))
    root = spans(edge.run())["a"]
    check_tree(root)
    assert (root.name, names(root)) == ("chat moe", ["queue", "prefill", "decode ar", "delivery"])
    queue, prefill, decode, _ = root.children
    said = root.attributes
    assert said["gen_ai.latency.time_to_first_token"] == prefill.end_s - 1.0
    assert said["gen_ai.latency.time_in_queue"] == queue.end_s - queue.start_s == 0.0
    assert said["gen_ai.latency.time_in_model_prefill"] == prefill.end_s - prefill.start_s > 0
    assert said["gen_ai.latency.time_in_model_decode"] == pytest.approx(decode.end_s - decode.start_s)
    assert said["gen_ai.latency.e2e"] == decode.end_s - 1.0
    assert (decode.attributes["foreserve.steps"], decode.attributes["foreserve.tokens"]) == (19, 19)
    assert said["gen_ai.response.finish_reasons"] == ["length"]
    assert (said["gen_ai.usage.input_tokens"], said["gen_ai.usage.output_tokens"]) == (100, 20)
    assert said["gen_ai.request.id"] == "chatcmpl-a"
    assert "error.type" not in said and not root.error


def test_speculation_is_told_by_what_was_drafted_and_accepted_for_the_request() -> None:
    edge = Edge("fixed-sd")
    edge.submit(Request("a", 0.0, 50, 60))
    root = spans(edge.run())["a"]
    (decode,) = [child for child in root.children if child.name == "decode sd"]
    said = decode.attributes
    steps = [record for record in edge.records if record.mode == "sd"]
    assert said["foreserve.steps"] == len(steps) < 59
    assert said["foreserve.drafted_tokens"] == sum(record.drafted for record in steps)
    assert said["foreserve.tokens"] == 59
    assert said["foreserve.accepted_tokens"] == 59 - len(steps)


def test_of_a_prompt_nothing_is_drafted_while_others_speculate_nor_is_less_than_nothing_accepted() -> None:
    edge = Edge("fixed-sd")
    edge.submit(Request("a", 0.0, 50, 60))
    edge.submit(Request("long", 0.1, 900, 60))
    root = spans(edge.run())["long"]
    prefill, decode = (child for child in root.children if child.name in ("prefill", "decode sd"))
    assert prefill.attributes["foreserve.steps"] == 4 and any(r.phase == "mixed" and r.drafts for r in edge.records)
    assert "foreserve.drafted_tokens" not in prefill.attributes
    assert "foreserve.accepted_tokens" not in prefill.attributes
    drafting = msgspec.structs.replace(edge.records[-1], phase="mixed", mode="sd", drafts=2, drafted=8)
    sequence = SequenceTrace(edge.told[0].sequences[0].flight)
    for i in range(2 * MAX_STEP_SPANS):  # The last of them are folded into one.
        sequence.computing = i >= MAX_STEP_SPANS
        sequence.step(msgspec.structs.replace(drafting, start_s=float(i)), 0 if sequence.computing else 3)
    said = of_steps(sequence.step_spans[-1])
    assert (said["foreserve.drafted_tokens"], said["foreserve.accepted_tokens"]) == (4, 2)
    assert decode.attributes["foreserve.accepted_tokens"] > 0


def test_each_stretch_in_a_mode_has_a_span_and_requests_wait_in_queue_spans() -> None:
    edge = Edge("tau")  # which drafts for two and more
    for i in range(12):  # The device takes 8.
        edge.submit(Request(str(i), 0.2 if i else 0.0, 200, 60))
    roots = spans(edge.run())
    assert len(roots) == 12
    for root in roots.values():
        check_tree(root)
    assert names(roots["0"])[:4] == ["queue", "prefill", "decode ar", "decode sd"]
    waited = [root.children[0].end_s - root.children[0].start_s for root in roots.values()]
    assert min(waited) == 0.0 and max(waited) > 0.1


def test_even_shares_add_up_to_what_all_steps_have_used() -> None:
    edge = Edge("fixed-sd")
    for i in range(8):
        edge.submit(Request(str(i), 0.05 * i, 120 + 30 * i, 30))
    roots = spans(edge.run())
    used = sum(sum(record.energy_j) for record in edge.records)
    assert sum(root.attributes["foreserve.energy.even_share_j"] for root in roots.values()) == pytest.approx(used)


def test_more_stretches_than_can_be_told_are_told_as_one() -> None:
    edge = Edge()
    edge.submit(Request("a", 0.0, 10, 5))
    (record,) = {r.phase: r for r in edge.run().records if r.phase == "decode"}.values()
    sequence = SequenceTrace(edge.told[0].sequences[0].flight)
    for i in range(3 * MAX_STEP_SPANS):
        sequence.step(msgspec.structs.replace(record, mode="sd" if i % 2 else "ar", start_s=float(i)), 1)
    assert len(sequence.step_spans) == MAX_STEP_SPANS
    last = sequence.step_spans[-1]
    assert (last.kind, last.folded) == ("several", 2 * MAX_STEP_SPANS)
    assert sum(each.steps for each in sequence.step_spans) == 3 * MAX_STEP_SPANS


def test_tokens_that_come_late_are_counted_and_their_steps_too() -> None:
    edge = Edge()
    request = Request("a", 0.0, 10, 6)
    edge.submit(request, fill=False)
    for _ in range(4):
        edge.driver.cycle()
    edge.fill(request)
    root = spans(edge.run())["a"]
    assert root.attributes["foreserve.overdue_tokens"] > 0
    assert root.attributes["gen_ai.usage.output_tokens"] == 6


def test_a_request_that_moves_says_so_and_its_prompt_is_computed_again() -> None:
    edge = Edge()
    flight = edge.submit(Request("a", 0.0, 100, 20))
    while len(flight.tokens) < 5:
        edge.driver.cycle()
    flight.move(1)
    edge.call_traces.on_move(flight)
    edge.call_traces.on_restart("token source")
    edge.call_traces.on_restart("device 0")
    edge.call_traces.on_fault(1, "clock", True)
    flight.move(0)
    edge.call_traces.on_move(flight)
    edge.scheduler.abort("a")
    edge.scheduler.submit(flight.resumed)
    root = spans(edge.run())["a"]
    check_tree(root)
    assert names(root) == ["queue", "prefill", "decode ar", "prefill", "decode ar", "delivery"]
    told = [(what, more) for _, what, more in root.events]
    assert told == [
        ("moved", {"foreserve.device": 1}),
        ("restarted", {"foreserve.actor": "token source"}),
        ("fault begins", {"foreserve.fault": "clock"}),
        ("moved", {"foreserve.device": 0}),
    ]


def test_several_texts_of_one_call_lie_side_by_side_in_one_trace() -> None:
    edge = Edge()
    call = Call(0.0, route="/v1/completions", status="200")
    for id in ("a-0", "a-1"):
        edge.submit(Request(id, 0.0, 20, 8), call)
    (call_trace,) = edge.run().told
    root = span_of(call_trace, "moe", 1.0)
    check_tree(root)
    assert root.name == "text_completion moe"
    assert names(root) == ["sequence 0", "sequence 1", "delivery"]
    assert names(root.children[0]) == ["queue", "prefill", "decode ar"]
    assert root.attributes["gen_ai.usage.output_tokens"] == 16
    said = root.attributes
    assert (said["gen_ai.request.n"], said["gen_ai.usage.input_tokens"]) == (2, 20)


def test_several_prompts_of_one_call_are_counted_each() -> None:
    edge = Edge()
    call = Call(0.0, route="/v1/completions", status="200")
    for id, tokens in (("a-0", 20), ("b-0", 30)):
        edge.submit(Request(id, 0.0, tokens, 8), call)
    (call_trace,) = edge.run().told
    said = span_of(call_trace, "moe", 1.0).attributes
    assert (said["gen_ai.request.n"], said["gen_ai.usage.input_tokens"]) == (1, 50)


def test_a_request_whose_client_went_away_has_failed() -> None:
    edge = Edge()
    flight = edge.submit(Request("a", 0.0, 100, 20))
    while len(flight.tokens) < 3:
        edge.driver.cycle()
    edge.finish(flight, "abort")
    (root,) = spans(edge).values()
    assert root.attributes["error.type"] == "cancelled" and "went away" in root.error
    assert "delivery" not in names(root)
    check_tree(root)


def test_a_request_that_never_began_has_waited_all_its_life() -> None:
    edge = Edge()
    flight = edge.submit(Request("a", 5.0, 100, 20))
    edge.clock.until(6.5)
    edge.finish(flight, "abort")
    (root,) = spans(edge).values()
    (queue,) = root.children
    assert (queue.name, queue.end_s - queue.start_s) == ("queue", 1.5)


def test_a_call_that_was_turned_away_has_a_span_and_says_why() -> None:
    edge = Edge()
    refusal = Overflow(Refusal(Reason.TTFT, "The first token is predicted too late.", 2.0), 1.0)
    edge.call_traces.on_answer(Call(0.0, route=ROUTE, status="429", refusal=refusal))
    edge.call_traces.on_answer(Call(0.0, route=ROUTE, status="400"))
    edge.call_traces.on_answer(Call(0.0, route="/foreserve.v1.OpenAI/CreateCompletion", status="NOT_FOUND"))
    away, wrong, unknown = (span_of(call_trace, "moe", 1.0) for call_trace in edge.told)
    assert (away.attributes["error.type"], away.attributes["http.response.status_code"]) == ("ttft", 429)
    assert away.error.startswith("The first token is predicted too late.")
    assert wrong.attributes["error.type"] == "400"
    assert (unknown.attributes["rpc.service"], unknown.attributes["error.type"]) == ("foreserve.v1.OpenAI", "NOT_FOUND")


@pytest.mark.parametrize("route", sorted(TEXT_ROUTES))
def test_a_call_whose_body_was_wrong_has_a_span_by_whatever_route_it_asked_for_text(route: str) -> None:
    edge = Edge()
    edge.call_traces.on_answer(Call(0.0, route=route, status="400"))
    assert [call_trace.call.route for call_trace in edge.told if call_trace.call] == [route]


def test_calls_that_asked_for_no_text_have_no_story() -> None:
    edge = Edge()
    edge.call_traces.on_answer(Call(0.0, route="/metrics", status="200"))
    edge.call_traces.on_answer(Call(0.0, route="/v1/nowhere", status="404"))
    assert edge.told == []


def test_a_call_is_told_once_its_last_request_has_ended_even_if_it_was_answered_before() -> None:
    edge = Edge()
    flight = edge.submit(Request("a", 0.0, 100, 20))
    assert flight.call is not None
    edge.call_traces.on_answer(flight.call)
    assert edge.told == []
    edge.finish(flight, "abort")
    assert len(edge.told) == 1


def test_a_call_whose_text_is_made_in_the_background_is_told_when_it_is_made() -> None:
    edge = Edge()
    call = Call(0.0, route="/v1/responses", status="200")
    call.at_end.append(lambda: edge.call_traces.on_answer(call))
    call.end(None)
    assert edge.told == []
    edge.finish(edge.submit(Request("a", 0.0, 100, 20), call), "length")
    assert [story.call for story in edge.told] == [call]


def test_targets_are_told_and_whether_they_were_met() -> None:
    edge = Edge()
    edge.submit(Request("slow", 0.0, 100, 4, ttft_s=1e-6))
    edge.submit(Request("fast", 0.0, 100, 4, ttft_s=100.0, tpot_s=100.0, topic="legal"))
    roots = spans(edge.run())
    assert [roots[id].attributes["foreserve.slo.met"] for id in ("slow", "fast")] == [False, True]
    assert "foreserve.slo.tpot_s" not in roots["slow"].attributes
    assert roots["fast"].attributes["foreserve.topic"] == "legal"


def test_classifying_is_part_of_waiting() -> None:
    edge = Edge()
    flight = edge.submit(Request("a", 0.0, 100, 4, topic="maths"))
    flight.classified_s = (0.0, 0.0)
    queue = spans(edge.run())["a"].children[0]
    assert names(queue) == ["classify"]


def test_a_request_without_a_call_is_told_too() -> None:
    edge = Edge()
    request = Request("a", 0.0, 10, 4)
    edge.submit(request, called=False)
    (call_trace,) = edge.run().told
    assert span_of(call_trace, "moe", 1.0).name == "text_completion moe"
