"""Does everybody on the edge's event loop get a turn while more comes from the devices than clients can be sent?"""

import asyncio

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from vllm.v1.engine import EngineCoreOutput, EngineCoreOutputs
from vllm.v1.outputs import LogprobsLists, LogprobsTensors

from serving.edge.delivery.output_queue import MOST_IN_A_TURN, MOST_SLOW, OutputQueue

LOGPROBS = LogprobsLists(np.zeros((1, 1)), np.zeros((1, 1)), np.zeros(1))
RELEASES, STREAMS = 200, 48
A_TURN = -(-MOST_IN_A_TURN // STREAMS)


def test_others_have_a_turn_between_a_few_releases() -> None:
    delivered = list[tuple[int, float]]()

    async def turns() -> int:
        had, queue = 0, OutputQueue(lambda device, at_s: delivered.append((device, at_s)))
        for release in range(RELEASES):
            queue.put(EngineCoreOutputs(0, [EngineCoreOutput("r", [1])] * STREAMS), (0, float(release)))
            queue.flush()

        async def another() -> None:
            nonlocal had
            while True:
                had += 1
                await asyncio.sleep(0)

        other = asyncio.ensure_future(another())
        seen = 0
        while seen < RELEASES * STREAMS:
            seen += len((await queue.get()).outputs)
        other.cancel()
        assert seen == RELEASES * STREAMS
        return had

    assert asyncio.run(turns()) >= RELEASES // A_TURN
    # Of the last ones it is told with what comes next.
    assert delivered == [(0, float(release)) for release in range(len(delivered))]
    assert len(delivered) >= RELEASES - A_TURN


@given(st.lists(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=12), max_size=20))
def test_what_takes_long_is_overtaken_and_no_request_by_itself(releases: list[list[tuple[int, bool]]]) -> None:
    delivered = list[tuple[int, float]]()

    async def run() -> list[list[EngineCoreOutput]]:
        queue, turns = OutputQueue(lambda device, at_s: delivered.append((device, at_s))), []
        number = 0
        for at, release in enumerate(releases):
            outputs = []
            for request, slow in release:
                logprobs = LOGPROBS if slow else None
                outputs.append(EngineCoreOutput(str(request), [number], new_logprobs=logprobs))
                number += 1
            queue.put(EngineCoreOutputs(0, outputs), (0, float(at)))
            queue.flush()
        while sum(map(len, turns)) < number:
            turns.append((await queue.get()).outputs)
        queue.put(EngineCoreOutputs(0, [EngineCoreOutput("end", [number])]))
        queue.flush()
        await queue.get()
        await asyncio.sleep(0)
        return turns

    turns = asyncio.run(run())
    by_request: dict[str, list[int]] = {}
    for output in (output for turn in turns for output in turn):
        by_request.setdefault(output.request_id, []).extend(output.new_token_ids)
    assert sum(map(len, by_request.values())) == sum(map(len, releases))
    assert all(tokens == sorted(tokens) for tokens in by_request.values())
    assert all(sum(output.new_logprobs is not None for output in turn) <= MOST_SLOW for turn in turns)
    assert sorted(delivered) == [(0, float(at)) for at in range(len(releases))]


def test_a_turn_has_few_prompts_with_log_probabilities_and_one_that_has_many() -> None:
    def output(tokens: int) -> EngineCoreOutput:
        ids, ranks = torch.zeros(tokens, 21, dtype=torch.int64), torch.zeros(tokens, dtype=torch.int64)
        told = LogprobsTensors(ids, ids.float(), ranks)
        return EngineCoreOutput(f"r{tokens}", [1], new_prompt_logprobs_tensors=told)

    async def turns() -> list[int]:
        queue = OutputQueue(lambda device, at_s: None)
        queue.put(EngineCoreOutputs(0, [output(195)] * 3 + [output(1)] * MOST_SLOW))
        queue.flush()
        return [len((await queue.get()).outputs) for _ in range(4)]

    assert asyncio.run(turns()) == [1, 1, 1, MOST_SLOW]
