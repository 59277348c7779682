"""Several token sources: each makes its own requests, and what one leaves behind when it is killed others make."""

import time
from collections.abc import Iterator

import httpx
import openai
import pytest

from serving.cluster.cluster import source_count
from serving.process.server_process import Child, server
from serving.scenario.scenario import Scenario, ScenarioError
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


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Child]:
    log = tmp_path_factory.mktemp("log") / "server.log"
    options = ("--devices", "2", "--speed", "4", "--token-sources", "2", "--text", "vllm")
    with server(*options, quiet=True, log=log) as child:
        yield child


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_what_a_killed_source_leaves_behind_the_other_one_makes(pair: Child) -> None:
    client = openai.OpenAI(base_url=f"{pair.http_url}/v1", api_key="none", max_retries=0)
    reference = ask_all(client)
    assert [len(answer) for answer in reference] == [TOKENS] * REQUESTS
    victims = processes(pair, "TokenSource")
    assert len(victims) == 2
    assert ask_all(client, kill=victims[0]) == reference
    # All of it was made before there was another one in its place.
    parts = httpx.get(f"{pair.http_url}/ready").json()
    assert parts["ready"] and sorted(parts["parts"][f"token source {index}"] == "up" for index in (0, 1)) == [0, 1]


def until_both_are_up(pair: Child) -> None:
    end_s = time.monotonic() + 90
    while len(processes(pair, "TokenSource")) < 2 or set(parts_of(pair).values()) != {"up"}:
        assert time.monotonic() < end_s
        time.sleep(0.5)


def parts_of(pair: Child) -> dict[str, str]:
    told: dict[str, str] = httpx.get(f"{pair.http_url}/ready").json()["parts"]
    return told


def spent_by_each(pair: Child, client: openai.OpenAI) -> list[float]:
    """The processor seconds that each source takes for some requests."""
    sources = processes(pair, "TokenSource")
    before = [sum(source.cpu_times()[:2]) for source in sources]
    for _ in range(4):
        ask_all(client)
    return sorted(sum(source.cpu_times()[:2]) - was for source, was in zip(sources, before, strict=True))


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_requests_are_shared_out_unless_a_rank_names_their_source(pair: Child) -> None:
    until_both_are_up(pair)
    anyone = openai.OpenAI(base_url=f"{pair.http_url}/v1", api_key="none", max_retries=0)
    less, more = spent_by_each(pair, anyone)
    assert less > more / 4
    less, more = spent_by_each(pair, anyone.with_options(default_headers={"X-data-parallel-rank": "1"}))
    assert less < more / 4
