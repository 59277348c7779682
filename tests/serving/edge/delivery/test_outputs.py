"""Is what a step gave a request handed to vLLM's front end as one, and nothing of it lost?"""

from vllm.v1.engine import EngineCoreOutput, FinishReason

from serving.edge.delivery.outputs import by_sink, outputs_of
from serving.flight import Flight
from serving.token_source.logprob_codec import pack
from serving.types import Chunk, Release, Request


def test_the_tokens_of_a_request_are_one_output_with_its_end() -> None:
    chunks = [Chunk("a", 0, [1]), Chunk("a", 1, [2, 3]), Chunk("b", 5, [4]), Chunk("c", 7, [5]), Chunk("c", 8, [6], 1)]
    a, b, c = outputs_of(chunks)
    assert [(each.request_id, each.new_token_ids) for each in (a, b, c)] == [
        ("a", [1, 2, 3]),
        ("b", [4]),
        ("c", [5, 6]),
    ]
    assert (a.finish_reason, b.finish_reason, c.finish_reason) == (None, None, FinishReason.LENGTH)


def test_a_stop_has_its_reason() -> None:
    (output,) = outputs_of([Chunk("a", 0, [1]), Chunk("a", 1, [2], 0, "###")])
    assert (output.finish_reason, output.stop_reason) == (FinishReason.STOP, "###")


def test_what_vllm_said_more_of_comes_one_by_one() -> None:
    said = [EngineCoreOutput("a", [token], num_nans_in_logits=token) for token in (1, 2)]
    chunks = [Chunk("a", place, each.new_token_ids, extra=pack(each)) for place, each in enumerate(said)]
    assert [each.num_nans_in_logits for each in outputs_of([*chunks, Chunk("a", 2, [3]), Chunk("a", 3, [4])])] == [
        1,
        2,
        0,
    ]


def test_the_first_output_says_what_the_prefix_cache_had() -> None:
    logprobs = EngineCoreOutput("c", [5], num_nans_in_logits=1)
    chunks = [Chunk("a", 0, [1], cached=32, created=16), Chunk("a", 1, [2]), Chunk("b", 0, [3])]
    a, b, c = outputs_of([*chunks, Chunk("c", 0, [5], extra=pack(logprobs), cached=16)])
    assert a.prefill_stats and a.prefill_stats.num_cached_tokens == a.prefill_stats.num_local_cached_tokens == 32
    assert a.prefill_stats.num_cache_creation_tokens == 16
    assert b.prefill_stats is None
    assert c.prefill_stats and c.prefill_stats.num_cached_tokens == 16


def test_chunks_are_left_as_they_are() -> None:
    chunks = [Chunk("a", 0, [1]), Chunk("a", 1, [2])]
    outputs_of(chunks)
    assert [chunk.tokens for chunk in chunks] == [[1], [2]]


class FrontEnd:
    """One in another process, which devices reach at an `inbox`."""

    def __init__(self, inbox: tuple[str, ...] | None) -> None:
        self.inbox = inbox

    def deliver(self, release: Release, news: list[tuple[Flight, Chunk]]) -> None: ...


def test_of_an_edge_that_devices_reach_only_first_and_last_tokens_go_by_the_core() -> None:
    edge = FrontEnd(("there",))
    flight = Flight(None, Request("a", 0.0, 1, 9), 0, sink=edge)
    chunks = [Chunk("a", 0, [1]), Chunk("a", 1, [2]), Chunk("a", 2, [3], extra=b"x"), Chunk("a", 3, [4], 0)]
    assert by_sink((flight, chunk) for chunk in chunks) == {edge: [(flight, chunks[at]) for at in (0, 2, 3)]}


def test_each_edge_gets_one_message_however_requests_are_mixed() -> None:
    first, second = FrontEnd(None), FrontEnd(None)
    sinks = [first, second, None, first, second, first]
    flights = [Flight(None, Request(str(id), 0.0, 1, 9), 0, sink=sink) for id, sink in enumerate(sinks)]
    news = [(flight, Chunk(flight.request.id, place, [7])) for place in (0, 1) for flight in flights]
    found = {sink: [(chunk.request_id, chunk.first) for _, chunk in those] for sink, those in by_sink(news).items()}
    assert found == {
        first: [("0", 0), ("3", 0), ("5", 0), ("0", 1), ("3", 1), ("5", 1)],
        second: [("1", 0), ("4", 0), ("1", 1), ("4", 1)],
        None: [("2", 0), ("2", 1)],
    }
