"""A front end of vLLM's in another process, which takes the emulated devices for its engine.

It is vLLM's own, unmodified: `vllm serve MODEL --data-parallel-size 1 --data-parallel-size-local 0` waits for an
engine, and this is one. The protocol is vLLM's (`vllm/v1/engine/{core,core_client,utils}.py`): a handshake, then
requests, aborts and utility calls in over one socket for each of its API servers, and `EngineCoreOutputs` out over
another.
"""

import asyncio
import contextvars
import logging
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from vllm.v1.engine import (
    EngineCoreOutput,
    EngineCoreOutputs,
    EngineCoreReadyResponse,
    EngineCoreRequest,
    EngineCoreRequestType,
    FinishReason,
    UtilityOutput,
)
from vllm.v1.metrics.stats import PrefillStats, SchedulerStats
from vllm.v1.serial_utils import MsgpackDecoder, UtilityResult

from serving.cluster.streams.sockets import Address
from serving.edge.delivery.outputs import outputs_of
from serving.edge.engine_core import EmulatedCore
from serving.edge.front_ends.engine_sockets import shake_hands
from serving.edge.request_bounds import check_fits
from serving.flight import Flight
from serving.process.logs import fields
from serving.types import Chunk, DroppedMessages, Release

log = logging.getLogger("foreserve")

Ready = EngineCoreReadyResponse
"""What a front end is told of its engine."""

# How often a front end is told how many requests run and wait, in real seconds.
STATS_S = 0.25
# Whoever answers the handshake with something else is asked again after so many.
AGAIN_S = 1.0
# What a front end asks of an engine by itself, and what is so here.
SAID: dict[str, Any] = {
    "get_supported_tasks": ("generate",),
    "is_sleeping": False,
    "reset_mm_cache": None,
    "reset_encoder_cache": None,
}
# What the engine core does for it.
DONE = frozenset(("reset_prefix_cache", "pause_scheduler", "resume_scheduler", "is_scheduler_paused"))


class ServerLink(Protocol):
    """One of a front end's API servers. Its requests come on the running loop, its outputs are sent without waiting."""

    def listen(self, take: "Callable[[Any, list[bytes]], None]") -> None:
        """Hand over each message from now on."""

    def send(self, outputs: EngineCoreOutputs) -> None:
        """Send what a step gave, or an answer."""

    async def gone(self) -> None:
        """Wait until it has ended."""

    def close(self) -> None:
        """Drop the connection, and what was not delivered over it."""


class FrontEnd:
    """Joins the front end at an address, serves its requests, and waits for the next one there when it is gone.

    Its requests come without headers, and an engine can refuse none but with an error: so none is judged, and they wait
    as in vLLM.
    """

    def __init__(self, address: str, core: EmulatedCore, ready: EngineCoreReadyResponse) -> None:
        """`address`: where it shakes hands, as ZeroMQ writes it. `ready`: what it is told of its engine."""
        self._address, self._core, self._ready = address, core, ready
        self._requests, self._others = MsgpackDecoder(EngineCoreRequest), MsgpackDecoder()
        self._servers: Sequence[ServerLink] = ()
        self._server_of: dict[str, ServerLink] = {}
        self._prompts: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._adding: dict[str, asyncio.Task[None]] = {}
        self._told_s, self._paused = 0.0, False
        self._kv_tokens: Counter[int] = Counter()

    async def run(self) -> None:
        """Serve one front end after the other, until cancelled."""
        while True:
            try:
                self._servers = await self.meet()
                for server in self._servers:
                    server.listen(self._take)
                self.tell(logging.INFO, "The vLLM front end at %s has joined.")
                await self._servers[0].gone()
                self.tell(logging.WARNING, "The vLLM front end at %s is gone, and its requests are dropped.")
            except Exception as error:  # of whatever kind: the next one there may be a front end
                self.tell(logging.ERROR, f"What is at %s is no vLLM front end ({error}).")
                await asyncio.sleep(AGAIN_S)
            finally:
                self.part()

    async def meet(self) -> Sequence[ServerLink]:
        """Wait for the front end; return its API servers."""
        return await shake_hands(self._address, self._ready)

    def tell(self, level: int, sentence: str) -> None:
        """Log a sentence about the front end, with a place in it for its address."""
        log.log(level, sentence, self._address, extra=fields(front_end=self._address))

    def part(self) -> None:
        """Drop all that is left of a front end, its pause too: an engine of vLLM's would have gone with it."""
        for task in self._tasks:
            task.cancel()
        self._core.cancel(list(self._server_of))
        if self._paused:
            self._core.end_pause()
        self._paused = False
        self._server_of.clear()
        self._prompts.clear()
        for server in self._servers:
            server.close()
        self._servers = ()

    def _take(self, server: ServerLink, frames: list[bytes]) -> None:
        """Take a message in; what is none of this protocol's is dropped and told of."""
        try:
            kind = EngineCoreRequestType(frames[0])
            if kind is EngineCoreRequestType.ADD:
                self._enter(server, self._request(server, frames[1:]))
            elif kind is EngineCoreRequestType.ABORT:
                self._abort(self._others.decode(frames[1:]))
            elif kind is EngineCoreRequestType.UTILITY:
                _, call_id, method, arguments = self._others.decode(frames[1:])
                self._call(server, call_id, method, arguments)
        except Exception as error:
            self._core.devices.observer.on_dropped("front end", DroppedMessages(1, f"{type(error).__name__}: {error}"))

    def _call(self, server: ServerLink, call_id: int, method: str, arguments: list[Any]) -> None:
        """Take a utility call in; whoever waits for its answer hears if there can be none."""
        try:
            if method in DONE:
                self._start(self._do(server, call_id, method, arguments))
            elif output := self.answer(call_id, method, arguments):
                server.send(EngineCoreOutputs(utility_output=output))
        except Exception as error:
            failed = UtilityOutput(call_id, failure_message=f"{type(error).__name__}: {error}")
            server.send(EngineCoreOutputs(utility_output=failed))
            raise

    def _request(self, server: ServerLink, frames: list[bytes]) -> EngineCoreRequest:
        """Decode a request; one that can't be read ends with an error, if its id can."""
        try:
            return self._requests.decode(frames)
        except Exception as error:
            id, *_ = self._others.decode(frames)
            if isinstance(id, str) and id not in self._server_of:
                _fail(server, id, f"It can't be read: {error}")
            raise

    def context_of(self, request: EngineCoreRequest) -> contextvars.Context:
        """Return the context in which a request is added: one without a call, as a front end tells of none."""
        return contextvars.copy_context()

    def check(self, request: EngineCoreRequest) -> None:
        """Raise ValueError or `OutOfBounds` for a request beyond the bounds."""
        check_fits(request, self._ready.max_model_len)

    def answer(self, call_id: int, method: str, arguments: list[Any]) -> UtilityOutput | None:
        """Answer a utility call; None if nobody waits for that."""
        return answered(call_id, method)

    def _start(self, work: Coroutine[Any, Any, None], context: contextvars.Context | None = None) -> asyncio.Task[None]:
        task = asyncio.create_task(work, context=context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _do(self, server: ServerLink, call_id: int, method: str, arguments: list[Any]) -> None:
        """Have a utility call done, and answer it."""
        self._paused = method == "pause_scheduler" or (self._paused and method != "resume_scheduler")
        try:
            value = await getattr(self._core, f"{method}_async")(*arguments)
            output = UtilityOutput(call_id, result=UtilityResult(value))
        except Exception as error:  # of whatever kind: its arguments come from elsewhere
            output = UtilityOutput(call_id, failure_message=str(error))
        server.send(EngineCoreOutputs(utility_output=output))

    def _enter(self, server: ServerLink, request: EngineCoreRequest) -> None:
        """Have a request added; from now on it can be aborted."""
        id = request.request_id
        if id in self._server_of or self._core.flight(id) is not None:
            # The one that is there goes on; this one gets no second answer under its name.
            log.error("A request of the vLLM front end has the id %r of another one: it is dropped.", id)
            return
        context = self.context_of(request)
        self._server_of[id] = server
        self._prompts[id] = len(request.prompt_token_ids or ())
        task = self._adding[id] = self._start(self._add(server, request), context)
        task.add_done_callback(lambda _: self._adding.pop(id, None))

    async def _add(self, server: ServerLink, request: EngineCoreRequest) -> None:
        id = request.request_id
        try:
            self.check(request)
            await self._core.add_request_async(request, self)
        except Exception as error:
            # Nobody else's request is any the worse for it.
            log.error("A request of the vLLM front end cannot be served: %s", error)
            self._forget([id])
            _fail(server, id, str(error))

    def _abort(self, ids: list[str]) -> None:
        self._core.cancel(self.left(ids))

    def left(self, ids: list[str]) -> list[str]:
        """Forget requests that are over, also those that wait to be added; return those of them that there were."""
        for id in ids:
            # One that waits to be added is no flight yet.
            if task := self._adding.get(id):
                task.cancel()
        return self.known(ids)

    def known(self, ids: list[str]) -> list[str]:
        """Forget requests; return those of them that there were."""
        found = [id for id in dict.fromkeys(ids) if id in self._server_of]
        self._forget(found)
        return found

    @property
    def inbox(self) -> Address | None:
        """Return where it gets tokens straight from devices: nowhere, as vLLM's have no place for that."""
        return None

    def deliver(self, release: Release, news: list[tuple[Flight, Chunk]]) -> None:
        """Hand over what a release gives requests of this front end."""
        outputs = outputs_of(chunk for _, chunk in news)
        if release.record is not None:
            self._kv_tokens[release.device] = release.record.kv_tokens
        by_server: dict[int, tuple[ServerLink, list[EngineCoreOutput]]] = {}
        for output in outputs:
            if server := self._server_of.get(output.request_id):
                if (prompt := self._prompts.pop(output.request_id, None)) is not None:
                    stats = output.prefill_stats = output.prefill_stats or PrefillStats()
                    stats.num_prompt_tokens, stats.num_computed_tokens = prompt, prompt - stats.num_cached_tokens
                by_server.setdefault(id(server), (server, []))[1].append(output)
        ended = [output.request_id for output in outputs if output.finish_reason is not None]
        self._forget(ended)
        stats = self._stats() if ended or time.monotonic() - self._told_s > STATS_S else None
        for server, those in by_server.values():
            finished = {output.request_id for output in those if output.finish_reason is not None} or None
            server.send(EngineCoreOutputs(outputs=those, scheduler_stats=stats, finished_requests=finished))
        self._core.deliveries.note_delay(release.device, release.at_s)

    def _stats(self) -> SchedulerStats:
        """Return the state of all devices together, as statistics of vLLM's scheduler."""
        self._told_s = time.monotonic()
        running = sum(flight.started_s is not None for flight in self._core.flights)
        waiting = len(self._core.flights) - running
        return SchedulerStats(num_running_reqs=running, num_waiting_reqs=waiting, kv_cache_usage=self._kv_usage())

    def _kv_usage(self) -> float:
        """Return the share of all devices' KV caches that is in use, 0 to 1, as its releases tell."""
        held = sum(node.device_limits.kv_capacity_tokens for node in self._core.devices.up)
        busy = {flight.device for flight in self._core.flights}
        return min(1.0, sum(self._kv_tokens[device] for device in busy) / held) if held else 0.0

    def _forget(self, ids: list[str]) -> None:
        for id in ids:
            self._server_of.pop(id, None)
            self._prompts.pop(id, None)


def _fail(server: ServerLink, id: str, why: str) -> None:
    """End a request with an error."""
    output = EngineCoreOutput(id, [], finish_reason=FinishReason.ERROR, stop_reason=why)
    server.send(EngineCoreOutputs(outputs=[output], finished_requests={id}))


def answered(call_id: int, method: str) -> UtilityOutput:
    """Return the answer to a utility call."""
    if method in SAID:
        return UtilityOutput(call_id, result=UtilityResult(SAID[method]))
    return UtilityOutput(call_id, failure_message=f"An emulated device does not know the call {method!r}.")
