"""Where the server listens."""

import asyncio
import socket

import grpc
import pytest

from serving.api.grpc_server import OPTIONS, bind


def bound(host, port):
    async def run():
        return bind(grpc.aio.server(options=OPTIONS), host, port)

    return asyncio.run(run())


def test_port_0_is_any_free_one():
    assert bound("127.0.0.1", 0) > 0


def test_a_port_of_another_program_is_an_error_that_says_so():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(OSError, match=f"127.0.0.1:{port} .*in use.* --grpc-port"):
            bound("127.0.0.1", port)


def test_two_servers_do_not_share_a_port():
    async def run():
        first = grpc.aio.server(options=OPTIONS)
        port = bind(first, "127.0.0.1", 0)
        await first.start()
        try:
            with pytest.raises(OSError, match="in use"):
                bind(grpc.aio.server(options=OPTIONS), "127.0.0.1", port)
        finally:
            await first.stop(None)

    asyncio.run(run())


def test_an_address_of_another_machine():
    with pytest.raises(OSError, match=r"192.0.2.1:.* assign"):
        bound("192.0.2.1", 0)
