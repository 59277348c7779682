"""Is an output that cannot be processed the failure of its request alone, and counted as one?"""

import asyncio
from typing import Any

import pytest
from vllm.sampling_params import RequestOutputKind, SamplingParams
from vllm.v1.engine import EngineCoreOutput, EngineCoreRequest, FinishReason
from vllm.v1.engine.output_processor import RequestOutputCollector
from vllm.v1.engine.parallel_sampling import ParentRequest

from serving.call import Call, use
from serving.edge.delivery.apart_outputs import ApartOutputs
from serving.edge.delivery.direct_streams import DirectStreams
from serving.edge.refusals import GivenUp


def request(id: str, external: str = "") -> EngineCoreRequest:
    params = SamplingParams(max_tokens=9, detokenize=False, output_kind=RequestOutputKind.DELTA)
    return EngineCoreRequest(
        request_id=id,
        external_req_id=external or id,
        prompt_token_ids=[1],
        mm_features=None,
        sampling_params=params,
        pooling_params=None,
        arrival_time=0.0,
        lora_request=None,
        cache_salt=None,
        data_parallel_rank=None,
    )


def test_a_request_whose_output_fails_is_given_up_and_not_taken_for_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    given_up = list[str]()
    outputs = ApartOutputs(DirectStreams(), given_up.extend, None, log_stats=False)
    queues = {id: RequestOutputCollector(RequestOutputKind.DELTA, id) for id in ("good", "bad")}
    for id, queue in queues.items():
        outputs.add_request(request(id), None, queue=queue)

    def broken(*_: Any) -> None:
        raise ValueError("no such token")

    monkeypatch.setattr(outputs.request_states["bad"].detokenizer, "update", broken)
    done = outputs.process_outputs([EngineCoreOutput("bad", [7]), EngineCoreOutput("good", [8])])
    assert given_up == ["bad"] and not done.reqs_to_abort
    assert isinstance(queues["bad"].output, ValueError)
    good = queues["good"].get_nowait()
    assert good is not None and good.outputs[0].token_ids == [8]


def test_what_a_turn_has_for_a_stream_is_written_at_once_and_before_its_last_output(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run() -> list[str]:
        use(Call(0.0))
        outputs = ApartOutputs(DirectStreams(), lambda ids: None, None, log_stats=False)
        queue = RequestOutputCollector(RequestOutputKind.DELTA, "a")
        outputs.add_request(request("a"), None, queue=queue)
        detokenizer = outputs.request_states["a"].detokenizer
        monkeypatch.setattr(detokenizer, "decode_next", "{},".format, raising=False)
        stream = outputs.divert(outputs.request_states["a"].external_req_id)
        assert stream is not None
        written = list[str]()
        reader = asyncio.ensure_future(stream.kept(lambda text: not written.append(text)))
        await asyncio.sleep(0)
        outputs.process_outputs([EngineCoreOutput("a", [token]) for token in (7, 8)])
        last = EngineCoreOutput("a", [10], finish_reason=FinishReason.LENGTH)
        outputs.process_outputs([EngineCoreOutput("a", [9]), last])
        stream.end()
        await reader
        return written

    assert asyncio.run(run()) == ["7,8,", "9,"]


def test_a_call_diverts_its_own_request_though_anothers_has_the_same_id() -> None:
    outputs = ApartOutputs(DirectStreams(), lambda ids: None, None, log_stats=False)
    calls = {id: Call(0.0) for id in "ab"}
    queues = {id: RequestOutputCollector(RequestOutputKind.DELTA, id) for id in "ab"}
    for id, call in calls.items():
        use(call)
        outputs.add_request(request(id, "cmpl-X-0"), None, queue=queues[id])
    # The first one's only output is its last, beside a token of the other one.
    last = EngineCoreOutput("a", [7], finish_reason=FinishReason.LENGTH)
    outputs.process_outputs([last, EngineCoreOutput("b", [8])])
    use(calls["a"])
    assert outputs.divert("cmpl-X-0") is None
    use(calls["b"])
    stream = outputs.divert("cmpl-X-0")
    assert stream is not None and (stream.request_id, stream.tokens) == ("b", [8])
    use(None)
    assert outputs.divert("cmpl-X-0") is None


def test_of_several_choices_none_goes_on_where_one_has_failed() -> None:
    given_up = list[str]()
    outputs = ApartOutputs(DirectStreams(), given_up.extend, None, log_stats=False)
    parent = ParentRequest(request("p"))
    queue = RequestOutputCollector(RequestOutputKind.DELTA, "p")
    for index in range(3):
        child = request(parent.get_child_info(index)[0], "p")
        outputs.add_request(child, None, parent, index, queue)
    outputs.add_request(request("other"), None, queue=RequestOutputCollector(RequestOutputKind.DELTA, "other"))
    failed = EngineCoreOutput("1_p", [], finish_reason=FinishReason.ERROR, stop_reason="It can't go on.")
    outputs.process_outputs([failed])
    assert sorted(given_up) == ["0_p", "1_p", "2_p"]
    assert list(outputs.request_states) == ["other"]
    assert isinstance(queue.output, GivenUp)
