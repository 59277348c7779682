"""Forecast of a request's first token on a device, from what the edge knows, without asking the device.

It models first come, first served, under each prefill policy, and aims to be right on average: other policies' order,
prefix cache hits and early stops are not known beforehand. A prediction takes some ten microseconds however many
requests wait: sums are kept up to date, and only the batch is looked through (in `turn_queue`, all that wait).
"""

from collections.abc import Iterable

from serving.admission.device_queue import DeviceQueue, unslowed
from serving.admission.step_times import Pace
from serving.types import Chunk, Request, StepRecord


class Forecast:
    """The queues of all devices. Report requests, first tokens, ends and steps in order, and a step after its
    release."""

    def __init__(self) -> None:
        self._queues: dict[int, DeviceQueue] = {}
        self._open: set[int] = set()
        self._at: dict[str, DeviceQueue] = {}

    def add(self, device: int, queue: DeviceQueue) -> None:
        """Add a device, or one that returned, with nothing to do."""
        self._queues[device] = queue
        self._open.add(device)

    def close(self, device: int) -> None:
        """Stop forecasting for a device that takes no more requests."""
        self._open.discard(device)

    def remove(self, device: int) -> None:
        """Forget a device that is gone. Its last requests, and the record of its last step, may be reported later."""
        self.close(device)
        self._queues.pop(device, None)

    def predict_ttft_s(self, device: int, prompt_tokens: int, now_s: float) -> float:
        """Emulated seconds from `now_s` until the first token of a request that comes to the device now."""
        return self._queues[device].ttft_s(prompt_tokens, now_s)

    def best(self, devices: Iterable[int], prompt_tokens: int, now_s: float) -> tuple[float, int]:
        """Return the shortest time to first token (s) among `devices`, and the device."""
        return min((self.predict_ttft_s(device, prompt_tokens, now_s), device) for device in devices)

    def tokens_per_s(self, device: int, sequences: int) -> float:
        """Return the tokens per emulated second that each of `sequences` sequences gets from a device at its present
        pace, among those that it has, if these are more; 0 from one that is unknown."""
        queue = self._queues.get(device)
        return queue.tokens_per_s(max(sequences, len(queue.requests))) if queue else 0.0

    def next_stream(self, now_s: float) -> tuple[float, float]:
        """Return the emulated seconds until the first token of a short prompt that is admitted now, on the device that
        gives it soonest, and the tokens per emulated second from then on; (0, 0) without a device."""
        if not self._open:
            return 0.0, 0.0
        first_s, device = self.best(self._open, 1, now_s)
        # What was admitted is among a device's requests already.
        return first_s, self.tokens_per_s(device, 1)

    def set_pace(self, device: int, pace: Pace, kv_tokens: int) -> None:
        """Set a device's pace, and how many tokens its KV cache holds. At another pace than before, what was learned of
        its steps counts no longer."""
        queue = self._queues[device]
        queue.kv_tokens = kv_tokens
        if pace is not queue.pace:
            queue.pace, queue.slowdown, queue.beside_s = pace, unslowed(), None

    @property
    def devices(self) -> list[int]:
        """The devices that take requests."""
        return sorted(self._open)

    def on_submit(self, device: int, request: Request, now_s: float) -> None:
        """Queue a request at a device; one begun elsewhere, or moved there, has part of its tokens already."""
        self._remove(request.id)
        self._at[request.id] = queue = self._queues[device]
        idle = not queue.requests
        queue.add(request)
        if request.released:
            queue.decode(request.id, request.released)
        if idle:
            queue.begin(now_s)

    def on_first_token(self, request_id: str) -> None:
        """Record a request's first token; ignore an unknown request."""
        if queue := self._at.get(request_id):
            queue.decode(request_id, 1)

    def on_finish(self, request_id: str, made: int) -> None:
        """Remove a request, which ended with `made` tokens; ignore an unknown one."""
        if queue := self._at.pop(request_id, None):
            queue.finish(request_id, made)

    def on_release(self, chunks: Iterable[Chunk]) -> None:
        """Record a device's released tokens."""
        for chunk in chunks:
            if chunk.first == 0:
                self.on_first_token(chunk.request_id)
            if chunk.finish is not None:
                self.on_finish(chunk.request_id, chunk.first + len(chunk.tokens))

    def on_step(self, record: StepRecord) -> None:
        """Record a step of a device, after its release; ignore one that is gone."""
        if queue := self._queues.get(record.device):
            queue.learn(record)
            queue.begin(record.start_s + record.latency_s)

    def _remove(self, request_id: str) -> None:
        if queue := self._at.pop(request_id, None):
            queue.remove(request_id)
