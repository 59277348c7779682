"""How does the engine core have requests judged whose text had no tokens when they came?"""

from types import SimpleNamespace
from typing import Any

import pytest
from vllm import SamplingParams

from serving.admission_request import AdmissionRequest
from serving.call import Call, use
from serving.edge.engine_core import EmulatedCore


class Core(SimpleNamespace):
    """What is asked of the core meanwhile: it admits all."""

    def admit(self, id: str, asked: AdmissionRequest, params: SamplingParams, priority: int) -> None:
        self.call.admitted[id] = asked


@pytest.mark.parametrize("rank", [None, 3])
def test_text_is_judged_by_the_device_that_it_names(rank: int | None) -> None:
    use(call := Call(0.0))
    request: Any = SimpleNamespace(
        request_id="a-inside",
        external_req_id="a",
        prompt_token_ids=[1, 2],
        sampling_params=SamplingParams(max_tokens=5),
        data_parallel_rank=rank,
        priority=0,
    )
    try:
        assert EmulatedCore._admitted(Core(call=call), request) == AdmissionRequest(2, 5, 1, rank)  # type: ignore[arg-type]
    finally:
        use(None)
