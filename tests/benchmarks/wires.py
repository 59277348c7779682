"""What a message costs sender and receiver, in processor time, by wire and by ZeroMQ; both rest between messages.

python -m tests.benchmarks.wires
"""

import asyncio
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import uvloop
import zmq

from serving.cluster.streams.wire import Listener, Wire, dial

BYTES, MESSAGES, PER_S, ROUNDS = 1000, 1000, 400, 3


def by_wire(path: Path) -> Callable[[bytes], object]:
    return dial(path).send


def by_zmq(path: Path) -> Callable[[bytes], object]:
    socket = zmq.Context.instance().socket(zmq.PUSH)
    socket.connect(f"ipc://{path}")
    return socket.send


def sends(make: Callable[[Path], Callable[[bytes], object]] | None, path: Path, told: Connection) -> None:
    """Send at a pace; tell what that takes. Without `make`, only wait as often."""
    send = make(path) if make else lambda message: None
    time.sleep(0.3)
    began_s = time.process_time()
    for _ in range(MESSAGES):
        send(bytes(BYTES))
        time.sleep(1 / PER_S)
    told.send(time.process_time() - began_s)


async def wires(path: Path) -> float:
    loop, listener, done, got = asyncio.get_running_loop(), Listener(path), asyncio.Event(), 0

    def receive(wire: Wire) -> None:
        nonlocal got
        got += len(wire.receive())
        if got == MESSAGES:
            loop.remove_reader(wire.fileno())
            done.set()

    def accept() -> None:
        if wire := listener.accept():
            loop.add_reader(wire.fileno(), receive, wire)

    loop.add_reader(listener.fileno(), accept)
    began_s = time.process_time()
    await done.wait()
    return time.process_time() - began_s


async def zmqs(path: Path) -> float:
    socket, done, got = zmq.Context.instance().socket(zmq.PULL), asyncio.Event(), 0
    socket.bind(f"ipc://{path}")

    def drain() -> None:
        nonlocal got
        try:
            while socket.recv_multipart(zmq.NOBLOCK):
                got += 1
        except zmq.Again:
            if got == MESSAGES:
                done.set()

    descriptor = int(socket.get(zmq.FD))
    asyncio.get_running_loop().add_reader(descriptor, drain)
    began_s = time.process_time()
    drain()
    await done.wait()
    asyncio.get_running_loop().remove_reader(descriptor)
    return time.process_time() - began_s


def measured(
    make: Callable[[Path], Callable[[bytes], object]] | None, receive: object, path: Path
) -> tuple[float, float]:
    """Return the processor microseconds of a message: the sender's, and the receiver's."""
    here, there = multiprocessing.Pipe(duplex=False)
    sender = multiprocessing.get_context("spawn").Process(target=sends, args=[make, path, there])
    sender.start()
    received_s = uvloop.run(receive(path)) if callable(receive) else 0.0
    sent_s = here.recv()
    sender.join()
    return 1e6 * sent_s / MESSAGES, 1e6 * received_s / MESSAGES


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        kinds = {"nothing": (None, None), "wire": (by_wire, wires), "ZeroMQ": (by_zmq, zmqs)}
        for name, (make, receive) in kinds.items():
            rounds = [measured(make, receive, Path(folder) / f"{name}-{number}") for number in range(ROUNDS)]
            sent, received = (statistics.median(side) for side in zip(*rounds, strict=True))
            print(f"{name}: sender {sent:.0f} us (with its waiting between messages), receiver {received:.0f} us")


if __name__ == "__main__":
    main()
