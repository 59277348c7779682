"""Can a router that follows the devices' KV events know what each of them holds?"""

import contextlib
import random
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import httpx
import pytest
from smg_grpc_proto import vllm_engine_pb2, vllm_engine_pb2_grpc
from smg_grpc_proto.generated import common_pb2
from smg_grpc_servicer.kv_relay import vllm_chain

from serving.process.server_process import ServerProcess, server
from tests.patience import until
from tests.serving.edge.kv_events.subscriber import Subscriber

pytestmark = pytest.mark.timeout(300)

EVENTS = '{"enable_kv_cache_events": true, "endpoint": "tcp://*:0", "replay_endpoint": "tcp://*:0", "topic": "kv"}'
# Room for some 2,228 tokens in HB (60 % of it), so that prompts of a few hundred tokens evict each other.
SMALL = (
    *("--devices", "2", "--hardware", "elmoe3d-4gb", "--model", "glm-4.7-flash", "--token-model", "foreserve-moe"),
    *("--kv-tier", "hb", "--fault", "hb: left=0.6", "--max-model-len", "1024", "--speed", "8"),
)
BLOCK, RANKS = 16, (0, 1)


@pytest.fixture(scope="module")
def following() -> Iterator[ServerProcess]:
    for_vllm = (f"--kv-events-config={EVENTS}", "--prefix-caching-hash-algo=sha256_cbor")
    options = (*SMALL, *(f"--vllm-option={option}" for option in for_vllm))
    environment = {"VLLM_HOST_IP": "127.0.0.1", "VLLM_SERVER_DEV_MODE": "1"}
    with server(*options, quiet=True, environment=environment) as child:
        yield child


@pytest.fixture
def subscriber(following: ServerProcess) -> Iterator[Subscriber]:
    with Subscriber(sources(following), topic="kv") as found:
        assert found.settled(lambda: min(found.last.values()) >= 0)
        yield found


@pytest.fixture(scope="module")
def vllm(following: ServerProcess) -> Iterator[Any]:
    with grpc.insecure_channel(following.grpc_url.removeprefix("grpc://")) as channel:
        yield vllm_engine_pb2_grpc.VllmEngineStub(channel)


def sources(child: ServerProcess) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = httpx.get(f"{child.http_url}/kv_event_sources", timeout=30).json()
    return found


def ask(child: ServerProcess, prompt: list[int], rank: int, tokens: int = 2, **body: Any) -> int:
    """How many tokens of a prompt a device had."""
    said = {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, **body}
    headers = {"X-data-parallel-rank": str(rank)}
    answer = httpx.post(f"{child.http_url}/v1/completions", json=said, headers=headers, timeout=120)
    assert answer.status_code == 200, answer.text
    return int(answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"])


def hits(child: ServerProcess) -> float:
    text = httpx.get(f"{child.http_url}/metrics", timeout=30).text
    return sum(map(float, re.findall(r"^vllm:prefix_cache_hits_total{.*} (\S+)$", text, re.MULTILINE)))


def prompts(seed: int, count: int) -> list[list[int]]:
    """Prompts of which many begin alike, for some of their length."""
    chance = random.Random(seed)
    made = [[chance.randrange(100, 4000) for _ in range(600)] for _ in range(4)]
    for _ in range(count - len(made)):
        shared = chance.choice(made)[: chance.randrange(0, 600)]
        made.append(shared + [chance.randrange(100, 4000) for _ in range(chance.randrange(1, 640 - len(shared)))])
    return made


def held(subscriber: Subscriber, rank: int) -> set[Any]:
    return set(subscriber.ranks[rank].blocks)


def check(child: ServerProcess, subscriber: Subscriber, prompt: list[int], rank: int, tokens: int) -> int:
    """Ask for a prompt of which a device has what its events say, and, afterwards, all; return what it had."""
    expected = subscriber.prefixes(prompt)[rank]
    assert ask(child, prompt, rank, tokens) == expected
    # All whole blocks of the prompt are there now, that of its last token too.
    whole = len(prompt) // BLOCK * BLOCK
    assert subscriber.settled(lambda: subscriber.prefixes([*prompt, 0])[rank] == whole)
    return expected


@pytest.mark.slow
def test_what_is_rebuilt_from_the_events_is_what_the_devices_have(
    following: ServerProcess, subscriber: Subscriber
) -> None:
    chance, before, found = random.Random(5), hits(following), 0
    stored, evicted = set[Any](), set[Any]()
    for prompt in prompts(1, 60):
        rank = chance.choice(RANKS)
        known = held(subscriber, rank)
        found += check(following, subscriber, prompt, rank, chance.choice((1, 2, 40)))
        stored |= held(subscriber, rank) - known
        evicted |= known - held(subscriber, rank)
    assert found > 1000 and len(stored) > 300 and len(evicted) > 100
    assert hits(following) - before == found
    assert all(each.sizes == {BLOCK} for each in subscriber.ranks.values())


@pytest.mark.slow
def test_many_at_once_leave_nothing_untold(following: ServerProcess, subscriber: Subscriber) -> None:
    several = prompts(2, 40)
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda each: ask(following, each[1], each[0] % 2, tokens=8), enumerate(several)))
    # A device tells of its last prompt's blocks when it has nothing to do any more; others came before, in order.
    marks = [[4000 + rank] * BLOCK for rank in RANKS]
    for rank, mark in zip(RANKS, marks, strict=True):
        ask(following, mark, rank)
        assert subscriber.settled(lambda rank=rank, mark=mark: subscriber.prefixes([*mark, 0])[rank] == BLOCK)
    for index, prompt in enumerate(several):
        check(following, subscriber, prompt, index % 2, tokens=1)


def test_a_salt_keeps_blocks_apart(following: ServerProcess, subscriber: Subscriber) -> None:
    prompt = [77] * 100
    assert [ask(following, prompt, 0, cache_salt=salt) for salt in ("mine", "mine", "yours")] == [0, 96, 0]
    assert subscriber.settled(lambda: subscriber.prefixes(prompt, "yours")[0] == 96)
    assert subscriber.prefixes(prompt, "mine")[0] == 96 and subscriber.prefixes(prompt)[0] == 0


def test_an_answer_is_found_again_by_who_goes_on_from_there(following: ServerProcess, subscriber: Subscriber) -> None:
    chance = random.Random(11)
    prompt = [chance.randrange(100, 4000) for _ in range(50)]
    said = {"prompt": prompt, "max_tokens": 40, "temperature": 0, "ignore_eos": True, "return_token_ids": True}
    answer = httpx.post(
        f"{following.http_url}/v1/completions", json=said, headers={"X-data-parallel-rank": "0"}, timeout=120
    )
    tokens = [*prompt, *answer.json()["choices"][0]["token_ids"]]
    assert len(tokens) == 90
    # Its last token was never computed with: 89 of them are in the KV cache, and 80 fill blocks.
    assert subscriber.settled(lambda: subscriber.prefixes([*tokens, 0])[0] == 80)
    assert ask(following, [*tokens, 5], 0) == 80


def test_hashes_are_those_of_a_vllm(following: ServerProcess, subscriber: Subscriber) -> None:
    prompt = [random.Random(9).randrange(100, 4000) for _ in range(200)]
    ask(following, prompt, 1)
    expected = {digest_int & (2**64 - 1) for _, digest_int in vllm_chain(prompt, BLOCK)}
    assert len(expected) == 12 and subscriber.settled(lambda: expected <= held(subscriber, 1))


def test_grpc_relays_the_same_with_the_load(following: ServerProcess, subscriber: Subscriber, vllm: Any) -> None:
    prompt = [random.Random(10).randrange(100, 4000) for _ in range(320)]
    stream = vllm.SubscribeKvEvents(common_pb2.SubscribeKvEventsRequest())
    stream.initial_metadata()
    threading.Timer(0.5, ask, (following, prompt, 1)).start()
    for batch in stream:
        if batch.events and batch.events[0].HasField("stored"):
            break
    stream.cancel()
    stored = batch.events[0].stored
    assert batch.dp_rank == 1 and batch.load.max_running_requests == 64
    assert [token for block in stored.blocks for token in block.token_ids] == prompt
    assert [block.block_hash for block in stored.blocks] == [digest for _, digest in vllm_chain(prompt, BLOCK)]


@contextlib.contextmanager
def kept_busy(child: ServerProcess, prompt: list[int], rank: int) -> Iterator[threading.Event]:
    """Meanwhile a device has one long request after the other, up to the event."""
    over = threading.Event()

    def keep() -> None:
        while not over.is_set():
            ask(child, prompt, rank, tokens=900)

    asking = threading.Thread(target=keep)
    asking.start()
    try:
        yield over
    finally:
        over.set()
        asking.join()


@pytest.mark.slow
def test_flushing_empties_all_caches_unless_something_runs(
    following: ServerProcess, subscriber: Subscriber, vllm: Any
) -> None:
    prompt = [55] * 320
    ask(following, prompt, 0)
    answers: list[Any] = []

    def is_refused() -> bool:
        answers.append(vllm.FlushCache(common_pb2.FlushCacheRequest()))
        return not answers[-1].success

    with kept_busy(following, [66] * 64, 1) as over:
        # Between two requests there is a moment in which nothing runs.
        until(is_refused)
        assert "in flight" in answers[-1].message
        # Of several ranks those without requests are emptied, as in vLLM.
        until(lambda: not held(subscriber, 0) and held(subscriber, 1))
        over.set()
        assert vllm.FlushCache(common_pb2.FlushCacheRequest(timeout_s=60)).success
    assert subscriber.settled(lambda: not held(subscriber, 1))
    assert ask(following, prompt, 0) == 0
    assert httpx.post(f"{following.http_url}/reset_prefix_cache", timeout=30).json() == {"success": True}
    assert ask(following, prompt, 0) == 0
    with pytest.raises(grpc.RpcError) as wrong:
        vllm.FlushCache(common_pb2.FlushCacheRequest(timeout_s=float("nan")))
    assert wrong.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.slow
def test_the_emulated_machine_is_described(following: ServerProcess, vllm: Any) -> None:
    info = vllm.GetServerInfo(vllm_engine_pb2.GetServerInfoRequest())
    assert (info.data_parallel_size, info.block_size, info.max_num_seqs, info.is_paused) == (2, BLOCK, 64, False)
    model = vllm.GetModelInfo(vllm_engine_pb2.GetModelInfoRequest())
    assert (model.max_context_length, model.vocab_size, model.served_model_name) == (1024, 4096, "glm-4.7-flash")
    loads: dict[int, Any] = {}

    def is_running() -> bool:
        loads.update({load.dp_rank: load for load in vllm.GetLoads(vllm_engine_pb2.GetLoadsRequest()).loads})
        return bool(loads[1].num_running_reqs and loads[1].token_usage)

    with kept_busy(following, [88] * 64, 1):
        until(is_running)
    assert loads[1].num_running_reqs == 1 and loads[0].num_running_reqs == 0
    assert loads[1].gen_throughput > 0 and loads[1].num_used_tokens < loads[1].max_total_num_tokens < 5000
    one = vllm.GetLoads(vllm_engine_pb2.GetLoadsRequest(dp_rank=1))
    assert [load.dp_rank for load in one.loads] == [1] and one.dp_rank_count == 1
    with pytest.raises(grpc.RpcError) as unknown:
        vllm.GetLoads(vllm_engine_pb2.GetLoadsRequest(dp_rank=7))
    assert unknown.value.code() is grpc.StatusCode.INVALID_ARGUMENT and "0, 1" in unknown.value.details()


@pytest.mark.slow
def test_a_device_that_is_lost_has_nothing_and_one_that_joins_a_publisher(
    following: ServerProcess, subscriber: Subscriber, vllm: Any
) -> None:
    """The last of all: it leaves three devices."""
    ask(following, [99] * 320, 1)
    assert subscriber.settled(lambda: bool(held(subscriber, 1)))
    stream = vllm.SubscribeKvEvents(common_pb2.SubscribeKvEventsRequest())
    stream.initial_metadata()
    faults = f"{following.http_url}/foreserve/v1/faults"
    lost = httpx.post(faults, json={"fault": "lost: device=1"}, timeout=60).json()
    assert subscriber.settled(lambda: not held(subscriber, 1))
    httpx.delete(f"{faults}/{lost['id']}", timeout=60)
    assert subscriber.settled(lambda: following_has(following, "serving"))
    ask(following, [99] * 320, 1)
    assert subscriber.settled(lambda: len(held(subscriber, 1)) == 20)
    devices = f"{following.http_url}/foreserve/v1/devices"
    spec = {"device": "elmoe3d-4gb"}
    added = httpx.post(devices, json=spec, timeout=120)
    assert added.status_code == 200, added.text
    assert sources(following).keys() == {"0", "1", "2"}
    with Subscriber(sources(following), topic="kv") as other:
        ask(following, [99] * 320, 2)
        assert other.settled(lambda: len(held(other, 2)) == 20)
    with pytest.raises(grpc.RpcError) as ended:
        list(stream)
    assert ended.value.code() is grpc.StatusCode.DATA_LOSS and "subscribe anew" in ended.value.details()


def following_has(child: ServerProcess, state: str) -> bool:
    """Whether device 1 is in a state."""
    devices = httpx.get(f"{child.http_url}/foreserve/v1/devices", timeout=30).json()["devices"]
    return bool(devices[1]["state"] == state)
