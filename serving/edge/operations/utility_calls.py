"""Utility calls: what vLLM's servers ask of an engine core beside requests, done on emulated devices or refused."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from vllm.config import KVEventsConfig
from vllm.v1.engine.core_client import EngineCoreClient

from serving.cluster.device_manager import Devices
from serving.cluster.node import Node
from serving.edge.kv_events.publishers import KvEvents
from serving.edge.operations.gate import Gate
from serving.edge.refusals import NotEmulated
from serving.flight import Flight

LOOK_S = 0.01
# A device hears of the end of its last request a moment after the client.
SETTLED_S = 1.0
# Emulated seconds: until somebody says otherwise.
FOREVER_S = 1e12
# ... for devices to have told of all that they have sent their edges.
TOLD_S = 0.2

NO_MEMORY = "An emulated device has no memory to give back, so it never sleeps: /is_sleeping says so."
NO_WEIGHTS = "An emulated device has no weights of its own to read or change: name another --token-model."
NO_WORKERS = "There is no worker of vLLM's behind an emulated device that could be called."
NO_PROFILER = "An emulated device has no profiler; its steps are in /metrics, and --step-log writes each."


def not_emulated(sentence: str) -> Callable[..., Awaitable[Any]]:
    """Return a utility call that is refused with a sentence."""

    async def refuse(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise NotEmulated(sentence)

    return refuse


class RefusedCalls(EngineCoreClient):  # type: ignore[misc]
    """The utility calls of which emulated devices have nothing."""

    profile_async = not_emulated(NO_PROFILER)
    sleep_async = release_kv_cache_memory_async = not_emulated(NO_MEMORY)
    collective_rpc_async = save_sharded_state_async = not_emulated(NO_WORKERS)
    get_weight_version_async = set_weight_version_async = compute_weight_checksums_async = not_emulated(NO_WEIGHTS)

    async def get_supported_tasks_async(self) -> tuple[str, ...]:
        return ("generate",)

    async def reset_mm_cache_async(self) -> None:
        """There is none."""

    async def reset_encoder_cache_async(self) -> None:
        """There is none."""


class UtilityCalls(RefusedCalls):
    """The utility calls of an engine core, for it to extend: it has `devices`, `flights`, a `gate` that its requests
    pass, and perhaps `kv_events`."""

    devices: Devices
    gate: Gate
    kv_events: KvEvents | None

    @property
    def flights(self) -> Collection[Flight]:
        """The requests in flight."""
        raise NotImplementedError

    def drop(self, request_ids: list[str]) -> None:
        """Stop requests on their devices, which are in flight here until they are ended."""
        raise NotImplementedError

    def abort_all(self) -> None:
        """End every request as aborted; their clients get what they have so far."""
        raise NotImplementedError

    def abort_elsewhere(self, ids: list[str]) -> None:
        """Leave aborted requests that its own front end does not have: no other takes its clients' calls."""

    def end_operations(self) -> None:
        """Let go of what the calls below have opened or closed."""
        self.gate.open()
        if self.kv_events is not None:
            self.kv_events.close()

    @property
    def engine_ranks_managed(self) -> list[int]:
        """The data-parallel ranks that there are: devices, by their indices."""
        return sorted(node.index for node in self.devices.present)

    def get_kv_event_sources(self) -> dict[int, KVEventsConfig]:
        """Return where each rank publishes its KV events."""
        return self.kv_events.sources() if self.kv_events is not None else {}

    async def reset_prefix_cache_async(
        self, reset_running_requests: bool = False, reset_connector: bool = False
    ) -> bool:
        """Empty the prefix caches of all devices that have no requests; return whether all are empty now. As in vLLM
        none is emptied under a request that runs: `reset_running_requests` changes nothing about that here."""
        return all(await asyncio.gather(*(self._flush(node) for node in self.devices.up)))

    async def _flush(self, node: Node) -> bool:
        waits = int(SETTLED_S / LOOK_S)
        while not (done := bool(await node.scheduler.flush.remote())) and waits > 0:
            if self.devices.in_flight(node.index):
                break
            waits -= 1
            await asyncio.sleep(LOOK_S)
        if done:
            self.devices.forget_prompts(node.index)
        return done

    async def pause_scheduler_async(self, mode: str = "abort", clear_cache: bool = True) -> None:
        """Have requests wait until `resume_scheduler_async`; those in flight are aborted, waited for, or kept: their
        devices stand still. As in vLLM a pause outlasts who has asked for it by HTTP, a client or an edge of ours:
        weights may be changed under it, and whoever comes next is told of it by /is_paused."""
        self.gate.close()
        if mode == "keep":
            self.devices.pause(FOREVER_S)
            return
        if mode == "abort":
            if any(flight.inbox for flight in self.flights):
                # Their edges have tokens of which devices have not told yet.
                self.drop([flight.request.id for flight in self.flights])
                await asyncio.sleep(TOLD_S)
            self.abort_all()
        while self.flights and self.gate.closed:
            await asyncio.sleep(LOOK_S)
        if clear_cache:
            await self.reset_prefix_cache_async()

    async def resume_scheduler_async(self) -> None:
        """Go on after a pause."""
        self.end_pause()

    def end_pause(self) -> None:
        """Let devices and requests go on."""
        self.devices.pause(0.0)
        self.gate.open()

    async def is_scheduler_paused_async(self) -> bool:
        return self.gate.closed

    async def is_sleeping_async(self) -> bool:
        return False

    async def wake_up_async(self, tags: list[str] | None = None) -> bool:
        """Return that it is awake."""
        return True
