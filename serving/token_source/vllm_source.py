"""The token source: vLLM's engine core, running ahead of the emulated clock into a bounded buffer per request."""

import logging
import math
import queue
import time
from collections import defaultdict
from collections.abc import Callable, Mapping

import msgspec
import numpy as np
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.v1.engine import EngineCoreOutput, EngineCoreOutputs, EngineCoreRequest
from vllm.v1.engine.core import EngineCore
from vllm.v1.executor import Executor

from serving.token_source.chunks import probe, to_chunk
from serving.token_source.clean_batch import clean_batch
from serving.token_source.forced_replay import KNOWN_TOKENS
from serving.token_source.group_testing import Trials
from serving.token_source.live_request import LiveRequest
from serving.token_source.scheduler import RunAheadScheduler
from serving.token_source.step_cost import StepTimeFit
from serving.types import FAILED, FAILED_ON, Chunk

log = logging.getLogger("foreserve")

IDLE_S = 0.005
# Steps whose tokens may go to a device together, while it has ample tokens of all its requests: so many at least, as
# what it has taken is known a tenth of a second later.
MOST_TOGETHER, AMPLE = 8, 48
PROBE = "foreserve-probe"
PROBE_STEPS = 8
# Seconds after which a trial that cannot even begin (a grammar that compiles, no room in the KV cache) is over.
STUCK_TRIAL_S = 5.0


class VllmSource:
    """An `EngineCore` and its requests. Calls from any thread become commands to the one thread that runs `cycle`.

    A step that fails ends only the request that is its cause: the others in it begin again, apart, with equal tokens.
    """

    def __init__(self, args: AsyncEngineArgs, ahead: int, deliver: Callable[[int, list[Chunk]], None]) -> None:
        """`ahead`: tokens that a request may be ahead of its device; `deliver(device, chunks)` sends them there."""
        config = args.create_engine_config()
        config.scheduler_config.scheduler_cls = RunAheadScheduler
        # A small model fills JSON with whitespace up to its limit. vLLM refuses the flag beside the backend "auto",
        # whose two backends both know it, so it is set once that is checked.
        config.structured_outputs_config.disable_any_whitespace = True
        self._context: int = config.model_config.max_model_len
        self._core = EngineCore(config, Executor.get_class(config), log_stats=False)
        self._scheduler: RunAheadScheduler = self._core.scheduler
        self.live = self._scheduler.live
        self._ahead = ahead
        self._deliver = deliver
        # What devices with ample tokens have not been sent yet, and who else is to be sent something.
        self._kept: dict[int, list[list[Chunk]]] = defaultdict(list)
        self._short: set[int] = set()
        self._trials = Trials()
        self.cost = StepTimeFit()
        self._stepped_at_s = 0.0
        self._began_s = math.inf
        self._commands: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def warm_up(self, request_id: str, device: int, tokens: int) -> None:
        """Make `tokens` tokens that no client waits for: the first ones of a process take much longer than the rest."""
        self.add(probe(request_id, tokens, self._context), device, [])

    def add(self, request: EngineCoreRequest, device: int, known: list[int]) -> None:
        """Begin a request, unless it is there already: one that may have got lost is told of again. `known` are tokens
        of it that an earlier source made, to be made again."""
        self.do(lambda: self._add(request, device, known))

    def drop(self, request_ids: list[str]) -> None:
        """Forget requests that are done or aborted."""
        self.do(lambda: self._drop(request_ids))

    def keep(self, request_ids: list[str]) -> None:
        """Forget all requests but these."""
        self.do(lambda: self._keep(request_ids))

    def taken(self, positions: dict[str, int]) -> None:
        """Record the number of tokens that a device has taken of each request, by id."""
        self.do(lambda: self._taken(positions))

    def resend(self, request_id: str, position: int, device: int) -> None:
        """Deliver again all tokens of a request from `position` of its output on, and those to come, to `device`."""
        self.do(lambda: self._resend(request_id, position, device))

    def remind(self, request_id: str, position: int, device: int) -> None:
        """Deliver again the tokens from `position` of a request's output on, for which its device has long waited.
        Ignore a device that it is no longer on."""
        self.do(lambda: self._remind(request_id, position, device))

    def beyond_known(self) -> list[str]:
        """Return the ids of requests with more tokens than an earlier engine had made."""
        return [id for id, live in list(self.live.items()) if live.finished or live.made > len(live.known)]

    def do(self, command: Callable[[], None]) -> None:
        """Queue a command for the thread that runs `cycle`, before its next step."""
        self._commands.put(command)

    def cycle(self) -> None:
        """Carry out all commands, then make one step of tokens; wait while there is nothing to do. Call it in a loop.

        Raise vLLM's error if it can make no step at all any more.
        """
        if idle := not self._scheduler.has_work():
            self._send_kept()
        self._carry_out(wait=idle)
        if not self._scheduler.has_work():
            return
        began_s = time.monotonic()
        try:
            outputs, computed = self._core.step_fn()
        except Exception as error:
            self._recover(error)
            return
        if computed:
            self._stepped_at_s = time.monotonic()
        else:
            # What waits cannot begin yet (no room in the KV cache, a grammar still compiling): no need to spin.
            self._send_kept()
            self._carry_out(wait=True, timeout_s=IDLE_S)
            if self._trials.on_trial and time.monotonic() - self._stepped_at_s > STUCK_TRIAL_S:
                self._trials.passed(list(self._trials.on_trial))
                self._scheduler.allowed = self._trials.allowed
        self._distribute(outputs, time.monotonic() - began_s)

    def _distribute(self, outputs: Mapping[int, EngineCoreOutputs] | None, took_s: float) -> None:
        """Send the tokens of a step to the devices, and learn from the seconds that it took."""
        batches: dict[int, list[Chunk]] = defaultdict(list)
        for core_outputs in (outputs or {}).values():
            for output in core_outputs.outputs:
                self._collect(output, batches)
        for device, chunks in batches.items():
            self._kept[device].append(chunks)
            if device in self._short or len(self._kept[device]) >= MOST_TOGETHER:
                self._send(device)
        self._short.clear()
        made = [chunk for chunks in batches.values() for chunk in chunks]
        # A step with a prompt in it is no measure of those that follow.
        if made and all(chunk.first for chunk in made):
            self.cost.learn(len(made), took_s)

    def _send(self, device: int) -> None:
        """Send a device all that it has not been sent yet, as one message: each costs as much as a good many tokens."""
        self._deliver(device, [chunk for chunks in self._kept.pop(device) for chunk in chunks])

    def _send_kept(self) -> None:
        for device in list(self._kept):
            self._send(device)

    def _recover(self, error: Exception) -> None:
        """Have the requests of a failed step begin again, apart; fail the one that is known to be the cause."""
        self._send_kept()
        crashed = set(self._scheduler.in_step)
        log.error("A step of the token source failed (%s: %s); its requests go on apart.", type(error).__name__, error)
        self._core.abort_requests(list(crashed))
        if not self._makes_tokens():
            raise error
        culprit = self._trials.crash(id for id in reversed(self.live) if id in crashed)
        self._stepped_at_s = time.monotonic()
        self._scheduler.allowed = self._trials.allowed
        for id in [id for id in self.live if id in crashed]:
            if id == culprit:
                self._fail(self.live.pop(id), error)
            elif not self.live[id].finished:
                live = self.live[id]
                self._begin(live.request, live.device, live.tokens, live.taken)

    def _makes_tokens(self) -> bool:
        """Tell whether the engine still makes tokens, once a failed step's requests are gone: tried on a probe."""
        self._scheduler.allowed = {PROBE}
        try:
            clean_batch(self._core)
            self._core.add_request(*self._core.preprocess_add_request(probe(PROBE, 2, self._context)))
            for _ in range(PROBE_STEPS):
                outputs, _ = self._core.step_fn()
                if any(output.finished for core in outputs.values() for output in core.outputs):
                    return True
        except Exception as error:
            log.error("The token source makes no tokens any more (%s: %s).", type(error).__name__, error)
        return False

    def _fail(self, live: LiveRequest, error: Exception) -> None:
        """End a request with an error; every other request goes on."""
        why = f"{FAILED_ON} ({type(error).__name__}: {error})."
        failed = Chunk(live.request.request_id, len(live.tokens), [], FAILED, why)
        self._deliver(live.device, [failed])

    @property
    def overdue_s(self) -> float:
        """Real seconds for which the thread that runs `cycle` has been at one step; 0 while it waits for work."""
        return max(0.0, time.monotonic() - self._began_s)

    def _carry_out(self, wait: bool, timeout_s: float | None = None) -> None:
        try:
            self._began_s = math.inf if wait else time.monotonic()
            command = self._commands.get(block=wait, timeout=timeout_s)
            self._began_s = time.monotonic()
            command()
            while True:
                self._commands.get_nowait()()
        except queue.Empty:
            self._began_s = time.monotonic()

    def _add(self, request: EngineCoreRequest, device: int, known: list[int]) -> None:
        if request.request_id not in self.live:
            self._begin(request, device, known, taken=0)

    def _begin(self, request: EngineCoreRequest, device: int, known: list[int], taken: int) -> None:
        # Which tokens are known is for us to say, whatever a client has written.
        given = request.sampling_params.extra_args or {}
        others = {name: value for name, value in given.items() if name != KNOWN_TOKENS}
        request.sampling_params.extra_args = (others | {KNOWN_TOKENS: known} if known else others) or None
        live = self.live[request.request_id] = LiveRequest(request, device, known, taken=taken)
        self._release_held()
        try:
            self._core.add_request(*self._core.preprocess_add_request(request))
        except Exception as error:
            del self.live[request.request_id]
            self._fail(live, error)

    def _drop(self, request_ids: list[str]) -> None:
        unfinished = [id for id in request_ids if (live := self.live.pop(id, None)) and not live.finished]
        self._scheduler.held.difference_update(request_ids)
        self._trials.gone(request_ids)
        self._scheduler.allowed = self._trials.allowed
        if unfinished:
            self._core.abort_requests(unfinished)

    def _keep(self, request_ids: list[str]) -> None:
        if left := self.live.keys() - set(request_ids):
            log.warning("%d requests that have ended were still in the token source: they are dropped.", len(left))
            self._drop(list(left))

    def _taken(self, positions: dict[str, int]) -> None:
        """Record what devices have taken. A token costs less the more requests are in its step: who is held stays
        so until one of them has used up a quarter of its lead; then all go on together."""
        held, low, is_low = self._scheduler.held, self._ahead - self._ahead // 4, False
        for request_id, position in positions.items():
            if live := self.live.get(request_id):
                live.taken = max(live.taken, position)
                is_low = is_low or (live.lead < low and request_id in held)
        if is_low:
            self._release_held()

    def _release_held(self) -> None:
        """Let all requests that have room for tokens have steps again, together."""
        live = self.live
        self._scheduler.held.difference_update(
            [id for id in self._scheduler.held if id in live and live[id].lead < self._ahead]
        )

    def _resend(self, request_id: str, position: int, device: int) -> None:
        if live := self.live.get(request_id):
            live.taken, live.device = position, device
            if chunks := [chunk for chunk in live.chunks if chunk.first >= position]:
                self._deliver(live.device, chunks)
            self._release_held()

    def _remind(self, request_id: str, position: int, device: int) -> None:
        live = self.live.get(request_id)
        if live is None or live.device != device:
            return
        held = request_id in self._scheduler.held
        if held or live.made > position:
            sentence = "Device %d has waited for request %s at token %d: %d are made, %d were taken%s."
            log.warning(sentence, device, request_id, position, live.made, live.taken, ", and it was held" * held)
        self._resend(request_id, position, device)

    def _collect(self, output: EngineCoreOutput, batches: dict[int, list[Chunk]]) -> None:
        live = self.live.get(output.request_id)
        if live is None:
            return
        chunk = to_chunk(output, live.made)
        if chunk.routes is not None and not live.made:
            prompt = np.array(live.request.prompt_token_ids or [], dtype=np.uint32)
            chunk = msgspec.structs.replace(chunk, prompt=prompt.tobytes())
        live.chunks.append(chunk)
        live.made += len(chunk.tokens)
        live.finished = chunk.finish is not None
        if self._trials.on_trial:
            self._judge(output.request_id, live)
        if not live.finished and live.lead >= self._ahead:
            self._scheduler.held.add(output.request_id)
        # After an answer's end its device may have no other tokens, with which it would go.
        if live.finished or live.lead < max(AMPLE, self._ahead // 2):
            self._short.add(live.device)
        batches[live.device].append(chunk)

    def _judge(self, request_id: str, live: LiveRequest) -> None:
        if live.finished:
            self._trials.gone([request_id])
        elif live.made > len(live.known):
            self._trials.passed([request_id])
        self._scheduler.allowed = self._trials.allowed
