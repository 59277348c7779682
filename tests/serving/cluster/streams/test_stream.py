"""Do streams carry what is sent, and survive what should not have been?"""

import asyncio
import contextlib
import itertools
import os
import pickle
import socket
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
import uvloop
import zmq
from hypothesis import given, settings
from hypothesis import strategies as st
from vllm.v1.engine import EngineCoreOutput, FinishReason
from vllm.v1.outputs import LogprobsLists, LogprobsTensors

from serving.cluster.streams import sockets, wire
from serving.cluster.streams.curve_keys import CurveKeys, unlock
from serving.cluster.streams.rpc import ONE_WAY, RpcCall, RpcServer, RpcTeller
from serving.cluster.streams.sockets import Address, Host, connect
from serving.cluster.streams.stream import Drops, Inbox
from serving.cluster.streams.wire import HEAD, MOST_BYTES, Listener, Messages, connected, dial
from serving.edge.delivery.outputs import outputs_of
from serving.process.run_folder import hold
from serving.token_source.logprob_codec import pack, unpack
from serving.types import Chunk, DroppedMessages
from tests import patience

PATIENCE_S = 10.0


@pytest.fixture(autouse=True)
def nodes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Where this process is, for as long as nobody says otherwise: no Ray is needed to tell."""
    here = ["here"]
    monkeypatch.setattr(sockets, "this_node", lambda: here[0])
    monkeypatch.setattr(sockets.ray.util, "get_node_ip_address", lambda: "127.0.0.1")
    return here


class Got:
    """A device's receiver on its thread, with all that it took and dropped."""

    def __init__(self, folder: Path, others: bool) -> None:
        self.chunks: list[Chunk] = []
        self.dropped: list[DroppedMessages] = []
        self.receiver = RpcServer([self.push], folder, "device-0", others)
        threading.Thread(target=self.receiver.run, args=[self.dropped.append], daemon=True).start()

    def push(self, chunks: list[Chunk]) -> None:
        if any(chunk.request_id == "poison" for chunk in chunks):
            raise IndexError("list index out of range")
        self.chunks += chunks


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield tmp_path_factory.mktemp("w").absolute() / "run"


@pytest.fixture(params=[False, True], ids=["one host", "several nodes"])
def got(request: pytest.FixtureRequest, folder: Path) -> Got:
    return Got(folder, request.param)


until = partial(patience.until, within_s=PATIENCE_S)


def pushing(address: Address, keys: CurveKeys | None) -> "zmq.Socket[bytes]":
    """Somebody at a port, who sends what he likes."""
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
    if keys is not None:
        unlock(socket, keys)
    socket.connect(address.port)
    return socket


def called(argument: bytes) -> bytes:
    """A call of `push`, with whatever it brings."""
    return msgspec.msgpack.encode(RpcCall(ONE_WAY, "push", msgspec.Raw(b"\x91" + argument)))


NONSENSE = {
    "a byte": b"\xff",
    "nothing": b"",
    "another type": msgspec.msgpack.encode({"a": 1}),
    "a list of another type": msgspec.msgpack.encode([1]),
    "too few fields": msgspec.msgpack.encode([["a"]]),
    "a position before the first": msgspec.msgpack.encode([["a", -1, [1]]]),
    "no token": msgspec.msgpack.encode([["a", 0, [-1]]]),
    "no reason to end": msgspec.msgpack.encode([["a", 0, [1], 99]]),
    "no text": b"\x91\x93\xa1\xff\x00\x91\x01",
    "half a message": msgspec.msgpack.encode([Chunk("a", 0, [1])])[:-1],
    "deep": b"\x91" * 100_000,
    "large": bytes(2**24),
    "what its receiver trips over": msgspec.msgpack.encode([Chunk("poison", 0, [1])]),
}


NO_CALL = {
    "no such method": msgspec.msgpack.encode([0, "open", [b"x"]]),
    "a method that is not for others": msgspec.msgpack.encode([0, "__init__", []]),
    "too many arguments": msgspec.msgpack.encode([0, "push", [[], []]]),
    "an array of objects": called(msgspec.msgpack.encode(["|O", [1], b"12345678"])),
    "a number that is none": msgspec.msgpack.encode(["0", "push", [[]]]),
}
OF_CALLS = NONSENSE | NO_CALL | {f"{name}, called": called(message) for name, message in NONSENSE.items()}


@pytest.mark.parametrize("message", OF_CALLS.values(), ids=OF_CALLS.keys())
def test_what_cannot_be_read_is_dropped_and_told_of_and_the_next_message_is_taken(got: Got, message: bytes) -> None:
    stranger = connect(got.receiver.address)
    stranger.send(message)
    until(lambda: got.dropped)
    RpcTeller(got.receiver.address).tell("push", [Chunk("a", 0, [7])])
    until(lambda: got.chunks)
    stranger.send(message)
    until(lambda: len(got.dropped) == 2)
    assert [chunk.tokens for chunk in got.chunks] == [[7]]
    assert got.dropped[0].count == 1 and got.dropped[0].why


@pytest.mark.parametrize("message", NONSENSE.values(), ids=NONSENSE.keys())
def test_so_it_is_on_an_event_loop(folder: Path, message: bytes) -> None:
    async def run() -> tuple[list[Chunk], list[DroppedMessages]]:
        inbox: Inbox[list[Chunk]] = Inbox(list[Chunk], folder, "edge", Host("here"))
        taken, dropped, done = list[Chunk](), list[DroppedMessages](), asyncio.Event()

        def take(chunks: list[Chunk]) -> None:
            assert chunks[0].request_id != "poison"
            taken.extend(chunks)
            done.set()

        inbox.start(take, dropped.append)
        stranger = connect(inbox.address)
        stranger.send(message)
        stranger.send(msgspec.msgpack.encode([Chunk("a", 0, [7])]))
        await asyncio.wait_for(done.wait(), PATIENCE_S)
        inbox.close()
        return taken, dropped

    taken, dropped = asyncio.run(run())
    assert [chunk.tokens for chunk in taken] == [[7]] and len(dropped) == 1


def test_what_is_dropped_adds_up() -> None:
    drops = Drops()
    assert drops.all is None
    for why in ("one", "two"):
        drops.add(DroppedMessages(1, why))
    assert drops.all == DroppedMessages(2, "two")


def test_a_message_that_is_too_long_to_be_one_is_not_even_begun(got: Got) -> None:
    with socket.socket(socket.AF_UNIX) as raw:
        raw.settimeout(PATIENCE_S)
        raw.connect(got.receiver.address.path)
        raw.sendall(HEAD.pack(MOST_BYTES + 1))
        assert raw.recv(4096) == b""  # it hangs up
    until(lambda: got.dropped)
    assert str(MOST_BYTES) in got.dropped[0].why
    RpcTeller(got.receiver.address).tell("push", [Chunk("a", 0, [7])])
    until(lambda: got.chunks)


def test_a_message_that_is_too_long_to_be_sent_is_lost_alone(got: Got, monkeypatch: pytest.MonkeyPatch) -> None:
    teller = RpcTeller(got.receiver.address)
    with monkeypatch.context() as shorter:
        shorter.setattr(wire, "MOST_BYTES", 100)
        teller.tell("push", [Chunk("a", 0, [1] * 200)])
    teller.tell("push", [Chunk("a", 0, [7])])
    until(lambda: got.chunks)
    assert [chunk.tokens for chunk in got.chunks] == [[7]] and not got.dropped


def test_on_one_host_there_is_no_port(folder: Path) -> None:
    address = Got(folder, False).receiver.address
    assert address.port == "" and address.keys is None
    assert os.stat(address.folder).st_mode & 0o777 == 0o700
    assert len(bytes(Path(address.path))) <= 107


def test_another_node_takes_the_port_and_the_same_one_does_not(got: Got, nodes: list[str]) -> None:
    address = got.receiver.address
    RpcTeller(address._replace(port="tcp://127.0.0.1:1")).tell("push", [Chunk("a", 0, [1])])
    until(lambda: got.chunks)
    if address.keys is None:
        return
    nodes[0] = "there"
    RpcTeller(address._replace(path="/nowhere")).tell("push", [Chunk("a", 1, [2])])
    until(lambda: len(got.chunks) == 2)


def test_a_stranger_without_the_keys_of_a_port_gets_nothing_in(folder: Path) -> None:
    got = Got(folder, True)
    address = got.receiver.address
    assert address.keys is not None and address.keys.secret.decode() not in repr(address)
    other = Got(folder.with_name("other"), True).receiver.address
    assert other.keys is not None
    message = called(msgspec.msgpack.encode([Chunk("a", 0, [1])]))
    public, secret = zmq.curve_keypair()
    strangers = {
        "no keys": None,
        "keys of his own": address.keys._replace(public=public, secret=secret),
        "the keys of another receiver": address.keys._replace(public=other.keys.public, secret=other.keys.secret),
        "another server's key": address.keys._replace(server=other.keys.server),
    }
    for keys in strangers.values():
        stranger = pushing(address, keys)
        stranger.set(zmq.SNDTIMEO, 300)
        # Whoever has been shown the door by then has nobody to send to.
        with contextlib.suppress(zmq.Again):
            stranger.send(message)
    with socket.create_connection(("127.0.0.1", int(address.port.rpartition(":")[2]))) as raw:
        raw.sendall(b"GET / HTTP/1.1\r\n\r\n" + bytes(1000))
    time.sleep(0.5)
    assert not got.chunks and not got.dropped
    pushing(address, address.keys).send(message)
    until(lambda: got.chunks)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_another_user_cannot_reach_the_sockets_of_a_host(got: Got) -> None:
    path = got.receiver.address.path
    # Its parents are pytest's own, and closed as well.
    for parent in Path(path).parent.parents:
        if parent.stat().st_mode & 0o001 == 0:
            os.chmod(parent, 0o755)
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        try:
            socket.socket(socket.AF_UNIX).connect(path)
        except PermissionError:
            os._exit(13)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 13


def test_a_folder_that_others_can_enter_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    (tmp_path / "link").symlink_to(hold(tmp_path / "mine"))
    for name in ("open", "link"):
        with pytest.raises(PermissionError, match=name):
            hold(tmp_path / name)


def rich(position: int = 0) -> EngineCoreOutput:
    ids, values = np.array([[5, 6, 7]], dtype=np.int32), np.array([[-0.5, -1.25, float("-inf")]], dtype=np.float32)
    prompt = torch.tensor([[1, 2], [3, 4]], dtype=torch.int32), torch.tensor([[-1.0, -2.0], [-3.0, -4.5]])
    return EngineCoreOutput(
        "a",
        [5],
        new_logprobs=LogprobsLists(ids, values, np.array([1], dtype=np.int32)),
        new_prompt_logprobs_tensors=None if position else LogprobsTensors(*prompt, torch.tensor([2, 1])),
        finish_reason=FinishReason.STOP,
        stop_reason="###",
    )


def test_log_probabilities_are_the_same_at_the_other_end() -> None:
    sent = rich()
    there = unpack(Chunk("a", 0, [5], extra=pack(sent)))
    assert (there.new_token_ids, there.finish_reason, there.stop_reason) == ([5], FinishReason.STOP, "###")
    for mine, theirs in zip(sent.new_logprobs[:3], there.new_logprobs[:3], strict=True):
        np.testing.assert_array_equal(mine, theirs)
        assert mine.dtype == theirs.dtype
    for mine, theirs in zip(sent.new_prompt_logprobs_tensors[:3], there.new_prompt_logprobs_tensors[:3], strict=True):
        assert torch.equal(mine, theirs) and mine.dtype == theirs.dtype


def test_large_ones_are_one_frame_too() -> None:
    many = LogprobsTensors(
        torch.arange(40_000, dtype=torch.int32).reshape(2000, 20), torch.rand(2000, 20), torch.arange(2000)
    )
    there = unpack(Chunk("a", 0, [], extra=pack(EngineCoreOutput("a", [], new_prompt_logprobs_tensors=many))))
    assert torch.equal(there.new_prompt_logprobs_tensors.logprobs, many.logprobs)


class Trap:
    """Pickled, it says when it is opened."""

    opened = False

    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        return _open, ()


def _open() -> None:
    Trap.opened = True


def test_nothing_that_comes_is_unpickled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_ALLOW_INSECURE_SERIALIZATION", "1")
    trap = pickle.dumps(Trap())
    for code in (1, 2):
        ext = msgspec.msgpack.Ext(code, trap)
        for extra in (trap, msgspec.msgpack.encode(ext), msgspec.msgpack.encode(["a", [5], [ext, ext, ext]])):
            with pytest.raises(ValueError):
                unpack(Chunk("a", 0, [5], extra=extra))
    with pytest.raises(TypeError):
        pack(EngineCoreOutput("a", [5], kv_transfer_params={"trap": Trap()}))
    assert not Trap.opened


@pytest.mark.parametrize("extra", [b"", b"\xff", b"\x91\xc0", pack(EngineCoreOutput("b", [5]))])
def test_what_comes_with_a_token_and_cannot_be_read_does_not_take_the_token_with_it(extra: bytes) -> None:
    (output,) = outputs_of([Chunk("a", 0, [5], 1, extra=extra)])
    assert (output.request_id, output.new_token_ids, output.finish_reason) == ("a", [5], FinishReason.LENGTH)


def test_an_inbox_that_never_took_anything_is_closed_all_the_same(tmp_path: Path) -> None:
    inbox: Inbox[list[int]] = Inbox(list[int], tmp_path, "edge", Host("here"))
    inbox.close()
    another: Inbox[list[int]] = Inbox(list[int], tmp_path, "edge", Host("here"))
    assert another.address == inbox.address
    inbox.close()
    connect(another.address).close()  # which is not closed with it
    another.close()


def test_an_inbox_is_closed_once_more_though_its_loop_has_ended(tmp_path: Path) -> None:
    async def started() -> Inbox[list[int]]:
        inbox: Inbox[list[int]] = Inbox(list[int], tmp_path, "edge", Host("here"))
        inbox.start(lambda _: None, lambda _: None)
        inbox.close()
        return inbox

    uvloop.run(started()).close()


def test_who_sends_to_a_slow_receiver_never_waits_and_nothing_is_lost(tmp_path: Path) -> None:
    listener = Listener(tmp_path / "slow")
    sender, messages = dial(listener.path), [bytes([number % 256]) * (number * 997 % 100_000) for number in range(300)]
    for message in messages:
        sender.send(message)
    receiver, got = listener.accept(), list[bytes]()
    assert receiver is not None
    while len(got) < len(messages):
        got += map(bytes, receiver.wait(PATIENCE_S))
    assert got == messages
    sender.send(b"and now at once")
    assert [bytes(message) for message in receiver.wait(PATIENCE_S)] == [b"and now at once"]


def test_what_is_sent_to_somebody_who_has_gone_is_lost_without_a_word(tmp_path: Path) -> None:
    listener = Listener(tmp_path / "gone")
    first = dial(listener.path)
    listener.accept()
    listener.close()
    for sender in (first, connected(listener.path)):
        for _ in range(3):
            sender.send(bytes(100_000))
        with pytest.raises(ConnectionError):
            while True:
                sender.wait(PATIENCE_S)
        sender.close()
        sender.send(b"x")
        with pytest.raises(ConnectionError):
            sender.wait(0.01)


@settings(max_examples=50, deadline=None)
@given(messages=st.lists(st.binary(max_size=3000), max_size=20), cuts=st.lists(st.integers(1, 5000), min_size=1))
def test_messages_are_the_same_however_the_stream_is_cut(messages: list[bytes], cuts: list[int]) -> None:
    stream, parser, found = b"".join(HEAD.pack(len(each)) + each for each in messages), Messages(), list[bytes]()
    sizes = itertools.cycle(cuts)
    while stream:
        size = next(sizes)
        found += map(bytes, parser.of(stream[:size]))
        stream = stream[size:]
    assert found == messages
