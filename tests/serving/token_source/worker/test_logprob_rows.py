"""Does each row of a batch get the log probabilities that its own request asks for?"""

import asyncio
import math
from typing import Any

import httpx
import pytest
import torch

from serving.process.server_process import ServerProcess
from serving.token_source.worker.logprob_rows import RowSampler
from tests.conftest import MODEL


@pytest.mark.parametrize("most", [0, 2, 5])
@pytest.mark.parametrize("named", [{0: [3]}, {1: [9, 4, 0, 7]}, {0: [1, 2], 2: [5]}])
def test_rows_that_name_tokens_change_no_other_row(most: int, named: dict[int, list[int]]) -> None:
    logprobs = torch.log_softmax(torch.randn(3, 12, generator=torch.Generator().manual_seed(1)), -1)
    sampled = torch.tensor([2, 0, 11])
    sampler = RowSampler()
    sampler._most = most
    found = sampler.gather_specific_token_logprobs(logprobs, named, sampled)
    alone = sampler.gather_logprobs(logprobs, most, sampled)
    assert found is not None
    for row in range(3):
        tokens, values = found.logprob_token_ids[row].tolist(), found.logprobs[row].tolist()
        wanted = [int(sampled[row]), *named[row]] if row in named else alone.logprob_token_ids[row].tolist()
        assert tokens[: len(wanted)] == wanted
        assert values[: len(wanted)] == pytest.approx([float(logprobs[row, token]) for token in wanted])
        assert all(math.isinf(value) for value in values[len(wanted) :])
        assert found.selected_token_ranks[row] == alone.selected_token_ranks[row]


def test_without_others_it_is_what_vllm_gathers() -> None:
    logprobs = torch.log_softmax(torch.randn(2, 6), -1)
    found = RowSampler().gather_specific_token_logprobs(logprobs, {1: [4]}, torch.tensor([0, 1]))
    assert found is not None and found.logprob_token_ids.tolist() == [[0, 0], [1, 4]]


async def answers(child: ServerProcess, bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    async with httpx.AsyncClient(timeout=60) as client:
        sent = [client.post(f"{child.http_url}/v1/completions", json=body) for body in bodies]
        return [answer.raise_for_status().json() for answer in await asyncio.gather(*sent)]


def test_a_neighbour_that_names_tokens_leaves_log_probabilities_as_they_are(emulator: ServerProcess) -> None:
    mine = {"model": MODEL, "prompt": "Of a law", "max_tokens": 40, "seed": 3, "logprobs": 3, "ignore_eos": True}
    naming = {**mine, "prompt": "Of rain", "logprobs": 1, "logprob_token_ids": [1, 2, 9], "max_tokens": 60}
    [calm] = asyncio.run(answers(emulator, [mine]))
    [beside, *_] = asyncio.run(answers(emulator, [mine, *[naming] * 4]))
    said, then = (answer["choices"][0]["logprobs"]["top_logprobs"] for answer in (calm, beside))
    assert [sorted(each) for each in then] == [sorted(each) for each in said]
