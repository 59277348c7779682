"""Several token sources: each makes its own requests, and what one leaves behind when it is killed others make."""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import openai
import psutil
import pytest

from serving.cluster.cluster import source_count, usable_gpus
from serving.process.server_process import ServerProcess, server
from serving.scenario.scenario import Scenario, ScenarioError
from tests.conftest import MODEL
from tests.serving.cluster.test_recovery import REQUESTS, TOKENS, ask_all, processes


@pytest.mark.parametrize(
    ("asked", "devices", "cores", "gpus", "count"),
    [(0, 1, 64, 0, 1), (0, 16, 2, 0, 1), (0, 16, 16, 0, 4), (0, 16, 64, 0, 8), (0, 4, 64, 2, 2), (3, 1, 2, 0, 3)],
)
def test_there_are_as_many_as_help_or_as_are_asked_for(
    asked: int, devices: int, cores: int, gpus: int, count: int
) -> None:
    assert source_count(Scenario(token_sources=asked, devices=devices), cores, gpus) == count


def test_more_than_there_are_gpus_is_refused() -> None:
    with pytest.raises(ScenarioError, match="`token_sources` is 3: each takes a GPU, and there are 2"):
        source_count(Scenario(token_sources=3), 64, 2)


def test_the_cpu_build_of_vllm_uses_no_gpu_that_there_may_be() -> None:
    assert usable_gpus({"CPU": 16, "GPU": 1}, cpu_build=True) == 0
    assert usable_gpus({"CPU": 16, "GPU": 2}, cpu_build=False) == 2
    assert usable_gpus({"CPU": 16}, cpu_build=False) == 0


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    log = tmp_path_factory.mktemp("log") / "server.log"
    options = ("--devices", "2", "--speed", "4", "--token-sources", "2", "--text", "vllm")
    with server(*options, quiet=True, log=log) as child:
        yield child


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_what_a_killed_source_leaves_behind_the_other_one_makes(pair: ServerProcess) -> None:
    client = openai.OpenAI(base_url=f"{pair.http_url}/v1", api_key="none", max_retries=0)
    reference = ask_all(client)
    assert [len(answer) for answer in reference] == [TOKENS] * REQUESTS
    victims = processes(pair, "TokenSource")
    assert len(victims) == 2
    assert ask_all(client, kill=victims[0]) == reference
    # All of it was made before there was another one in its place, of whose death Ray hears a little later.
    wait_until(lambda: [parts_of(pair).get(f"token source {index}") == "up" for index in (0, 1)].count(True) == 1)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_requests_go_on_at_the_source_that_comes_back_first(pair: ServerProcess) -> None:
    until_both_are_up(pair)
    arrived: list[list[str]] = [[] for _ in range(REQUESTS)]
    with ThreadPoolExecutor(REQUESTS) as pool:
        answers = [pool.submit(long_answer, pair, seed, arrived[seed]) for seed in range(REQUESTS)]
        wait_until(lambda: all(arrived))
        first, second = processes(pair, "TokenSource")
        first.kill()
        # All requests get on at the other one ...
        came = [len(each) for each in arrived]
        wait_until(lambda: all(len(each) > were + 50 for each, were in zip(arrived, came, strict=True)))
        before = another(pair, [first, second])
        second.kill()
        # ... which is killed again while it starts.
        another(pair, [first, second, before]).kill()
        came = [len(each) for each in arrived]
        wait_until(lambda: all(len(each) > were for each, were in zip(arrived, came, strict=True)))
        # The other one may have come back as well meanwhile, on a slow machine.
        assert "up" in {parts_of(pair).get(f"token source {index}") for index in (0, 1)}
        texts = [answer.result(timeout=120) for answer in answers]
    until_both_are_up(pair)
    assert texts == [long_answer(pair, seed, []) for seed in range(REQUESTS)]


def long_answer(pair: ServerProcess, seed: int, arrived: list[str]) -> str:
    """A seeded answer; `arrived` grows with its lines."""
    asked = {"model": MODEL, "prompt": f"Request {seed}", "max_tokens": 1500, "seed": seed, "stream": True}
    url = f"{pair.http_url}/v1/completions"
    with httpx.stream("POST", url, json=asked | {"ignore_eos": True}, timeout=120) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: {"):
                arrived.append(json.loads(line.removeprefix("data: "))["choices"][0]["text"])
    return "".join(arrived)


def another(pair: ServerProcess, known: list[psutil.Process]) -> psutil.Process:
    """Wait for a source's process that is none of these."""
    wait_until(lambda: not set(processes(pair, "TokenSource")) <= set(known))
    [new] = set(processes(pair, "TokenSource")) - set(known)
    return new


def wait_until(done: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 90
    while not done():
        assert time.monotonic() < end_s
        time.sleep(0.05)


def until_both_are_up(pair: ServerProcess) -> None:
    end_s = time.monotonic() + 90
    while len(processes(pair, "TokenSource")) < 2 or set(parts_of(pair).values()) != {"up"}:
        assert time.monotonic() < end_s
        time.sleep(0.5)


def parts_of(pair: ServerProcess) -> dict[str, str]:
    told: dict[str, str] = httpx.get(f"{pair.http_url}/ready").json()["parts"]
    return told


def spent_by_each(pair: ServerProcess, client: openai.OpenAI) -> list[float]:
    """The processor seconds that each source takes for some requests."""
    sources = processes(pair, "TokenSource")
    before = [sum(source.cpu_times()[:2]) for source in sources]
    for _ in range(4):
        ask_all(client)
    return sorted(sum(source.cpu_times()[:2]) - was for source, was in zip(sources, before, strict=True))


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_requests_are_shared_out_unless_a_rank_names_their_source(pair: ServerProcess) -> None:
    until_both_are_up(pair)
    anyone = openai.OpenAI(base_url=f"{pair.http_url}/v1", api_key="none", max_retries=0)
    less, more = spent_by_each(pair, anyone)
    assert less > more / 4
    less, more = spent_by_each(pair, anyone.with_options(default_headers={"X-data-parallel-rank": "1"}))
    assert less < more / 4
