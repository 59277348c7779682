"""A KV-aware router's view of devices: rebuilt from their events alone, as such a router does."""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import zmq
from vllm.distributed.kv_events import AllBlocksCleared, BlockRemoved, BlockStored, KVEventBatch, ZmqEventPublisher

from tests.patience import PATIENCE_S


class HeldPrefixes:
    """What one device holds: blocks by their hash, each with the tokens from its prompt's beginning to its end."""

    def __init__(self) -> None:
        self.blocks: dict[Any, tuple[int, ...]] = {}
        self.sizes: set[int] = set()
        self.salts: dict[Any, str | None] = {}

    def hear(self, event: Any) -> None:
        if isinstance(event, AllBlocksCleared):
            self.blocks.clear()
        elif isinstance(event, BlockRemoved):
            for each in event.block_hashes:
                del self.blocks[each]  # one that was never stored is an error
        else:
            assert isinstance(event, BlockStored)
            self._store(event)

    def _store(self, event: BlockStored) -> None:
        before = self.blocks[event.parent_block_hash] if event.parent_block_hash is not None else ()
        salt = self.salts.get(event.parent_block_hash)
        assert len(event.token_ids) == len(event.block_hashes) * event.block_size
        for place, each in enumerate(event.block_hashes):
            keys = event.extra_keys[place] if event.extra_keys else None
            salt = keys[0] if keys else salt
            assert each not in self.blocks
            before = (*before, *event.token_ids[place * event.block_size : (place + 1) * event.block_size])
            self.blocks[each], self.salts[each] = before, salt
        self.sizes.add(event.block_size)

    def prefix(self, prompt: list[int], salt: str | None = None) -> int:
        """Tokens of a prompt that are here, but for its last one, which is computed in any case."""
        held = {blocks for each, blocks in self.blocks.items() if self.salts[each] == salt}
        return max(
            (len(each) for each in held if len(each) < len(prompt) and each == tuple(prompt[: len(each)])), default=0
        )


class Subscriber:
    """Follows the publishers of some ranks over ZeroMQ, from their first event on: what came before is replayed."""

    def __init__(self, sources: Mapping[str, Mapping[str, Any]], topic: str = "") -> None:
        self.ranks = {int(rank): HeldPrefixes() for rank in sources}
        self.last = dict.fromkeys(self.ranks, -1)
        self._sources = {int(rank): source for rank, source in sources.items()}
        self._topic, self._over = topic, False
        self._decode = msgspec.msgpack.Decoder(KVEventBatch).decode
        self._lock = threading.Lock()
        self.failed: list[str] = []
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> "Subscriber":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over = True
        self._thread.join()
        assert self.failed == []

    def settled(self, holds: Callable[[], bool], patience_s: float = PATIENCE_S) -> bool:
        """Whether something comes to hold within a while."""
        end_s = time.monotonic() + patience_s
        while not holds() and time.monotonic() < end_s:
            time.sleep(0.02)
        return holds()

    def prefixes(self, prompt: list[int], salt: str | None = None) -> dict[int, int]:
        with self._lock:
            return {rank: held.prefix(prompt, salt) for rank, held in self.ranks.items()}

    def _follow(self) -> None:
        context = zmq.Context()
        sockets: dict[Any, int] = {}
        for rank, source in self._sources.items():
            socket = context.socket(zmq.SUB)
            socket.subscribe(self._topic)
            socket.connect(source["endpoint"])
            sockets[socket] = rank
        poller = zmq.Poller()
        for socket in sockets:
            poller.register(socket, zmq.POLLIN)
        time.sleep(0.3)  # a subscription takes a moment, and nobody tells when it is there
        try:
            for rank, source in self._sources.items():
                self._replay(context, rank, source)
            while not self._over:
                for socket, _ in poller.poll(50):
                    _, number, payload = socket.recv_multipart()
                    self._take(sockets[socket], int.from_bytes(number, "big"), payload)
        except Exception as error:
            self.failed.append(repr(error))
        finally:
            context.destroy(linger=0)

    def _replay(self, context: "zmq.Context[Any]", rank: int, source: Mapping[str, Any]) -> None:
        socket = context.socket(zmq.DEALER)
        socket.connect(source["replay_endpoint"])
        socket.send_multipart([b"", (0).to_bytes(8, "big")])
        while True:
            _, _, number, payload = socket.recv_multipart()
            if number == ZmqEventPublisher.END_SEQ:
                return
            self._take(rank, int.from_bytes(number, "big"), payload)

    def _take(self, rank: int, number: int, payload: bytes) -> None:
        if number <= self.last[rank]:
            return  # live and replayed
        assert number == self.last[rank] + 1, f"rank {rank} skipped from {self.last[rank]} to {number}"
        batch = self._decode(payload)
        assert batch.data_parallel_rank == rank
        with self._lock:
            self.last[rank] = number
            for event in batch.events:
                self.ranks[rank].hear(event)
