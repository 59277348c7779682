"""Each actor's process is killed under load: every client still gets all of its tokens, once, and the same ones."""

import contextlib
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import httpx
import openai
import psutil
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from serving.cluster.watchdog import TOLD_AGAIN_S
from serving.process.forks.fork_off import ACTOR_FORKS, FORK_SERVER
from serving.process.server_process import ServerProcess
from tests.conftest import MODEL
from tests.patience import until
from tests.serving.forks import FORKS, is_named
from tests.soak.levels import family

REQUESTS, TOKENS = 4, 160
# Real seconds within which a part is back: it may import vLLM anew, on a machine that is busy.
BACK_S = 180.0


def ask(client: openai.OpenAI, seed: int, arrived: list[int], tokens: int = TOKENS) -> list[int]:
    """The token ids of a seeded stream; `arrived` grows with them."""
    ids: list[int] = []
    stream = client.completions.create(
        model=MODEL,
        prompt=f"Request {seed}",
        max_tokens=tokens,
        seed=seed,
        stream=True,
        extra_body={"ignore_eos": True, "return_token_ids": True},
    )
    for chunk in stream:
        ids += chunk.choices[0].token_ids or []
        arrived += chunk.choices[0].token_ids or []
    return ids


def ask_all(
    client: openai.OpenAI, kill: psutil.Process | None = None, how: signal.Signals = signal.SIGKILL
) -> list[list[int]]:
    """The answers to all requests at once; `kill` gets a signal when a third of the tokens is there."""
    arrived: list[int] = []
    with ThreadPoolExecutor(REQUESTS) as pool:
        answers = [pool.submit(ask, client, seed, arrived) for seed in range(REQUESTS)]
        while kill and len(arrived) < REQUESTS * TOKENS // 3:
            time.sleep(0.01)
        if kill:
            kill.send_signal(how)
        return [answer.result(timeout=120) for answer in answers]


def processes(emulator: ServerProcess, kind: str) -> list[psutil.Process]:
    """The processes of a kind of actor, or of a fork server."""
    found = []
    for pid in family(emulator.process.pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            if is_named(process, kind if kind in FORKS else f"ray::{kind}"):
                found.append(process)
    return found


def states_of(emulator: ServerProcess) -> dict[str, str]:
    """The state of each part by name."""
    told: dict[str, str] = httpx.get(f"{emulator.http_url}/ready", timeout=60).json()["parts"]
    return told


def put_up(emulator: ServerProcess, part: str = "") -> None:
    """Wait until a part is up, or all are."""

    def is_up() -> bool:
        states = states_of(emulator)
        return states.get(part) == "up" if part else set(states.values()) == {"up"}

    until(is_up, BACK_S)


@pytest.fixture(scope="module")
def reference(emulator: ServerProcess) -> list[list[int]]:
    """What the requests get when nothing dies."""
    client = openai.OpenAI(base_url=f"{emulator.http_url}/v1", api_key="none")
    answers = ask_all(client)
    assert [len(answer) for answer in answers] == [TOKENS] * REQUESTS
    return answers


@pytest.mark.timeout(600)
@pytest.mark.parametrize("actor", ["HbXpu", "SchedulerActor", "LpddrActor", "DeviceModelActor", "TokenSource"])
def test_requests_go_on_when_an_actor_dies(
    emulator: ServerProcess, client: openai.OpenAI, reference: list[list[int]], actor: str
) -> None:
    victim = processes(emulator, actor)[0]
    assert ask_all(client, kill=victim) == reference
    assert not psutil.wait_procs([victim], timeout=30)[1]
    assert ask_all(client) == reference


PARTS = {
    "SchedulerActor": "scheduler",
    "LpddrActor": "lpddr",
    "DeviceModelActor": "device model",
    FORK_SERVER: "fork server",
    ACTOR_FORKS: "actor fork server",
}
"""What the status calls them."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_has_died_is_not_said_to_be_up_until_somebody_looks_after_it(
    emulator: ServerProcess, part: str
) -> None:
    put_up(emulator)
    there = processes(emulator, part)
    there[0].kill()
    assert not psutil.wait_procs(there[:1], timeout=60)[1]
    time.sleep(TOLD_AGAIN_S)
    down = {name for name, state in states_of(emulator).items() if state != "up"}
    # Where that is read late, somebody may have looked after it.
    assert any(name.startswith(PARTS[part]) for name in down) or set(processes(emulator, part)) - set(there), down
    put_up(emulator)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_source_comes_back_as_fast_without_the_fork_server_which_is_replaced(
    emulator: ServerProcess, client: openai.OpenAI, reference: list[list[int]], how: signal.Signals
) -> None:
    put_up(emulator, "fork server")
    put_up(emulator, "token source")
    server, forker = fork_server(emulator)
    if processes(emulator, "TokenSource")[0].ppid() != forker.pid:
        # A test before this one has ended the forker that made it.
        ask_all(client, kill=processes(emulator, "TokenSource")[0])
        put_up(emulator, "token source")
    (source,) = processes(emulator, "TokenSource")
    assert source.ppid() == forker.pid
    server.send_signal(how)
    assert ask_all(client, kill=source) == reference
    # Nobody had to wait for it, if all tokens were made before.
    put_up(emulator, "token source")
    (second,) = processes(emulator, "TokenSource")
    assert second.ppid() == forker.pid
    # The forker as well, once there is another one.
    assert not psutil.wait_procs([server, forker], timeout=BACK_S)[1]
    another = fork_server(emulator)[1]
    assert ask_all(client, kill=second) == reference
    put_up(emulator, "token source")
    assert processes(emulator, "TokenSource")[0].ppid() == another.pid


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_source_comes_back_when_the_fork_server_and_its_forker_die_with_it(
    emulator: ServerProcess, client: openai.OpenAI, reference: list[list[int]]
) -> None:
    put_up(emulator, "fork server")
    put_up(emulator, "token source")
    (source,) = processes(emulator, "TokenSource")
    for each in fork_server(emulator):
        each.kill()
    assert ask_all(client, kill=source) == reference
    put_up(emulator, "fork server")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_actors_are_forks_too_and_come_back_when_their_fork_server_and_its_forker_die_with_them(
    emulator: ServerProcess, client: openai.OpenAI, reference: list[list[int]]
) -> None:
    put_up(emulator)
    server, forker = fork_server(emulator, ACTOR_FORKS)
    processes(emulator, "LpddrActor")[0].kill()
    scheduler = processes(emulator, "SchedulerActor")[0]
    for each in (server, forker):
        each.kill()
    assert ask_all(client, kill=scheduler) == reference
    put_up(emulator)
    another = fork_server(emulator, ACTOR_FORKS)[1]
    there = processes(emulator, "HbXpu")
    assert ask_all(client, kill=there[0]) == reference
    put_up(emulator)
    (new,) = set(processes(emulator, "HbXpu")) - set(there)
    assert new.ppid() == another.pid


def fork_server(emulator: ServerProcess, kind: str = FORK_SERVER) -> tuple[psutil.Process, psutil.Process]:
    """A fork server and its forker, which has the same command."""
    deadline = time.monotonic() + BACK_S
    while time.monotonic() < deadline:
        found = processes(emulator, kind)
        for server in found:
            for forker in found:
                if forker.ppid() == server.pid:
                    return server, forker
        time.sleep(0.2)
    raise TimeoutError("There is no forker.")


OTHERS = ("TokenSource", "SchedulerActor", "LpddrActor", "DeviceModelActor")
STOPS = ["HbXpu", *(pytest.param(actor, marks=pytest.mark.slow) for actor in OTHERS)]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("actor", STOPS)
def test_requests_go_on_when_an_actor_is_stopped(
    emulator: ServerProcess, client: openai.OpenAI, reference: list[list[int]], actor: str
) -> None:
    # One that is stopped while its forker ends, as another takes its place after the tests above, goes on: the kernel
    # continues process groups that it leaves behind.
    for kind in (FORK_SERVER, ACTOR_FORKS):
        fork_server(emulator, kind)
    victims = processes(emulator, actor)
    assert ask_all(client, kill=victims[0], how=signal.SIGSTOP) == reference
    # One that no request had to wait for is found silent a little later.
    victims[0].wait(timeout=BACK_S)
    assert ask_all(client) == reference


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_source_that_is_stopped_while_it_starts_is_replaced(
    emulator: ServerProcess, client: openai.OpenAI, reference: list[list[int]]
) -> None:
    (first,) = processes(emulator, "TokenSource")
    first.kill()
    second: list[psutil.Process] = []

    def is_there() -> bool:
        second[:] = [each for each in processes(emulator, "TokenSource") if each.pid != first.pid]
        return bool(second)

    until(is_there, BACK_S)
    second[0].suspend()
    second[0].wait(timeout=BACK_S)
    assert ask_all(client) == reference


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_actors_that_are_killed_again_as_they_start_keep_nobody_waiting_for_long(
    emulator: ServerProcess, client: openai.OpenAI, reference: list[list[int]]
) -> None:
    put_up(emulator, "fork server")
    with ThreadPoolExecutor(1) as pool:
        answers = pool.submit(ask_all, client)
        there = set(family(emulator.process.pid))
        for actor in ("HbXpu", "TokenSource"):
            processes(emulator, actor)[0].kill()
        # Before they have told anybody that they are there.
        assert len(kill_next(emulator, there, 2)) == 2
        assert answers.result(timeout=120) == reference
    put_up(emulator)
    # A device that had not heard of the source's successor would report its progress to nobody, and wait for tokens.
    assert ask_all(client) == reference


def kill_next(emulator: ServerProcess, there: set[int], count: int) -> list[psutil.Process]:
    """Kill the first processes of an emulation that come after those that are there."""
    killed: list[psutil.Process] = []
    deadline = time.monotonic() + 60
    while len(killed) < count and time.monotonic() < deadline:
        for pid in set(family(emulator.process.pid)) - there:
            there.add(pid)
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(pid)
                process.kill()
                killed.append(process)
    return killed


@pytest.mark.timeout(600)
def test_each_part_says_by_name_that_it_is_up(emulator: ServerProcess) -> None:
    parts = {"ray", "token source", "fork server", "actor fork server", "device model"}
    parts |= {f"{kind} {index}" for kind in ("device", "scheduler", "lpddr") for index in (0, 1)}
    # Of two devices one may still be coming back from the last test.
    put_up(emulator)
    answer = httpx.get(f"{emulator.http_url}/ready", timeout=60)
    told = answer.json()
    assert answer.status_code == 200 and told["ready"] and told["live"]
    assert set(told["parts"]) == parts and set(told["parts"].values()) == {"up"}
    with grpc.insecure_channel(emulator.grpc_url.removeprefix("grpc://")) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        for service in ("", "ready", *parts):
            found = health.Check(health_pb2.HealthCheckRequest(service=service))
            assert found.status == health_pb2.HealthCheckResponse.SERVING, service
        with pytest.raises(grpc.RpcError) as refused:
            health.Check(health_pb2.HealthCheckRequest(service="device 7"))
        assert refused.value.code() == grpc.StatusCode.NOT_FOUND
