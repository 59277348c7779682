"""Is a front end that is there taken for one that is there, and only that?"""

import asyncio
from pathlib import Path

import pytest
import zmq

from serving.edge.front_ends.engine_sockets import ApiServer

TRIES = 30


async def ended(within_s: float, requests: list[str], outputs: str) -> list[bool]:
    """Connect to a front end at each address for its requests; tell which ones are taken for gone after twice
    `within_s` real seconds."""
    servers = [ApiServer(address, outputs, within_s) for address in requests]
    waits = [asyncio.ensure_future(server.gone()) for server in servers]
    await asyncio.sleep(2 * within_s)
    found = [wait.done() for wait in waits]
    for server, wait in zip(servers, waits, strict=True):
        wait.cancel()
        server.close()
    return found


@pytest.mark.slow
def test_one_that_is_there_stays_however_soon_it_has_answered() -> None:
    context = zmq.Context.instance()
    with context.socket(zmq.PULL) as outputs:
        there = [context.socket(zmq.ROUTER) for _ in range(TRIES)]
        try:
            addresses = [f"tcp://127.0.0.1:{socket.bind_to_random_port('tcp://127.0.0.1')}" for socket in there]
            to = f"tcp://127.0.0.1:{outputs.bind_to_random_port('tcp://127.0.0.1')}"
            assert asyncio.run(ended(3.0, addresses, to)) == [False] * TRIES
        finally:
            for socket in there:
                socket.close(linger=0)


def test_one_that_does_not_come_is_gone(tmp_path: Path) -> None:
    async def wait() -> None:
        server = ApiServer(f"ipc://{tmp_path}/requests", f"ipc://{tmp_path}/outputs", 0.3)
        try:
            await asyncio.wait_for(server.gone(), 30.0)
        finally:
            server.close()

    asyncio.run(wait())
