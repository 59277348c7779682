"""Publishers of KV events: vLLM's own, one a device, as it has one a data-parallel rank."""

import logging
import threading
import time
from typing import Any

import numpy as np
import zmq
from vllm.config import KVEventsConfig
from vllm.distributed.kv_events import (
    MEDIUM_GPU,
    AllBlocksCleared,
    BlockRemoved,
    BlockStored,
    EventPublisher,
    EventPublisherFactory,
    KVEventBatch,
)

from serving.cluster.node import Node, State
from serving.cluster.observer import EdgeObserver
from serving.edge.kv_events.prefixes import Prefixes
from serving.flight import Flight
from serving.process.logs import fields
from serving.types import Chunk, KvEvent, Release
from serving.usage_error import UsageError

log = logging.getLogger("foreserve")

FULL_ATTENTION = "full_attention"


class KvEvents(EdgeObserver):
    """Hears what devices' prefix caches store and evict, and publishes it, each device at an endpoint of its own: that
    of vLLM's configuration, as vLLM moves it by the rank."""

    def __init__(self, config: KVEventsConfig, prefixes: Prefixes, block_tokens: int, devices: int) -> None:
        """Open the publishers of `devices` devices. `prefixes` are hashed as vLLM does. Raise UsageError."""
        self.prefixes = prefixes
        self._config, self._block_tokens = config, block_tokens
        self._publishers: dict[int, EventPublisher] = {}
        for index in range(devices):
            self._open(index)

    def sources(self) -> dict[int, KVEventsConfig]:
        """Return where each device publishes, by its index."""
        return {index: publisher.get_publisher_config() for index, publisher in sorted(self._publishers.items())}

    def on_change(self, node: Node) -> None:
        """Open the publisher of a device that has joined; tell that the cache of one that is lost or gone is."""
        index = node.index
        if node.up and index not in self._publishers:
            try:
                self._open(index)
            except UsageError as error:
                log.error("Device %d has no KV events: %s", index, error, extra=fields(device=index))
        elif node.state in (State.LOST, State.GONE):
            self._publish(index, [KvEvent()])
        if node.state is State.GONE and (publisher := self._publishers.pop(index, None)):
            # It waits for its last message to go out.
            threading.Thread(target=publisher.shutdown, daemon=True).start()

    def on_release(self, release: Release, news: list[tuple[Flight, Chunk]]) -> None:
        """Publish what has become of a device's prefix cache."""
        if release.kv_events:
            self._publish(release.device, release.kv_events)

    def close(self) -> None:
        """End all publishers; what they have goes out first."""
        for publisher in self._publishers.values():
            publisher.shutdown()
        self._publishers.clear()

    def _open(self, index: int) -> None:
        """Open a device's publisher. Raise UsageError if it cannot have its endpoints."""
        try:
            self._publishers[index] = EventPublisherFactory.create(self._config, index)
        except (zmq.ZMQError, ValueError) as error:
            said = f"{self._config.endpoint!r}, replay at {self._config.replay_endpoint!r}"
            raise UsageError(
                f"`--kv-events-config` names {said}, where device {index} can publish nothing ({error}): each device "
                "has the port of the one before it + 1, or (tcp://*:0) any free one.",
                "vllm_options",
            ) from error

    def _publish(self, device: int, events: list[KvEvent]) -> None:
        if publisher := self._publishers.get(device):
            batch = KVEventBatch(ts=time.time(), events=[self._as_vllm(event) for event in events])
            publisher.publish(batch)

    def _as_vllm(self, event: KvEvent) -> Any:
        """Return an event as a vLLM without adapters, with one group of full attention, has it."""
        if event.removed:
            return BlockRemoved(block_hashes=event.removed, medium=MEDIUM_GPU, group_idx=0)
        if not event.stored:
            return AllBlocksCleared()
        keys: list[tuple[str, ...] | None] = [None] * len(event.stored)
        if event.salt and event.parent is None:
            keys[0] = (event.salt,)
        return BlockStored(
            block_hashes=event.stored,
            parent_block_hash=event.parent,
            token_ids=np.frombuffer(event.tokens, dtype="<u4").tolist(),
            block_size=self._block_tokens,
            lora_id=None,
            medium=MEDIUM_GPU,
            lora_name=None,
            extra_keys=keys,
            group_idx=0,
            kv_cache_spec_kind=FULL_ATTENTION,
        )
