"""Outputs on their way to this process's own front end of vLLM's: those that take long do not delay the others, and
those of plain streams do not take its way at all."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from vllm.v1.engine import EngineCoreOutput, EngineCoreOutputs, FinishReason

from serving.edge.delivery.direct_streams import DirectStreams
from serving.edge.delivery.outputs import outputs_of
from serving.types import Chunk

# Outputs that go out before others on the loop have their turn, some milliseconds at most; and so many of those with
# log probabilities, each of which takes a good part of one. A prompt's count as another for so many of them.
MOST_IN_A_TURN, MOST_SLOW = 128, 8
AS_SLOW = 200

Delivery = tuple[int, float]
"""A device, and the emulated instant at which it had something."""


class SlowOutput(NamedTuple):
    """An output that takes long, and what has been delivered with it, if nothing else of its release is to come."""

    output: EngineCoreOutput
    delivers: Delivery | None


class OutputQueue:
    """First in, first out, but that outputs with log probabilities may be overtaken by those of other requests, and
    tokens of `direct` streams are written at once.

    `on_delivery(device, at_s)` hears when what a device had at an instant has gone out.
    """

    def __init__(self, on_delivery: Callable[[int, float], None]) -> None:
        self.direct = DirectStreams()
        self._on_delivery = on_delivery
        self._given: list[tuple[EngineCoreOutputs, Delivery | None]] = []
        self._outputs: deque[tuple[EngineCoreOutputs, Delivery | None]] = deque()
        self._slow: deque[SlowOutput] = deque()
        self._slow_by_request: Counter[str] = Counter()
        self._queued_by_request: Counter[str] = Counter()
        self._handed_over: list[Delivery] = []
        self._news = asyncio.Event()

    def put_chunks(self, device: int, at_s: float, chunks: Sequence[Chunk]) -> None:
        """Add tokens that a device had at an emulated instant. They go out by `flush`."""
        rest = self.direct.take(chunks, _plain_of_chunk)
        self._given.append((EngineCoreOutputs(outputs=outputs_of(rest)), (device, at_s)))

    def put(self, outputs: EngineCoreOutputs, delivers: Delivery | None = None) -> None:
        """Add outputs, those of a device with what is delivered with them. They go out by `flush`."""
        outputs.outputs = self.direct.take(outputs.outputs, _plain_of_output)
        self._given.append((outputs, delivers))

    def flush(self) -> None:
        """Write what direct streams were given, which comes first, and queue the rest. What several releases have
        given a stream goes out at once: a process that is behind catches up. Requests whose text could not be written
        end with an error."""
        failed = self.direct.flush()
        given, self._given = self._given, []
        for outputs, delivers in given:
            # Whose text is not whole does not end well, though its last token is here.
            outputs.outputs = [output for output in outputs.outputs if output.request_id not in failed]
            if outputs.outputs:
                self._queue(outputs, delivers)
            elif delivers is not None:
                self._on_delivery(*delivers)
        if failed:
            ended = [
                EngineCoreOutput(id, [], finish_reason=FinishReason.ERROR, stop_reason=why)
                for id, why in failed.items()
            ]
            self._queue(EngineCoreOutputs(outputs=ended), None)

    def _queue(self, outputs: EngineCoreOutputs, delivers: Delivery | None) -> None:
        slow, quick = list[EngineCoreOutput](), list[EngineCoreOutput]()
        for output in outputs.outputs:
            self._queued_by_request[output.request_id] += 1
            if self._is_slow(output):
                self._slow_by_request[output.request_id] += 1
                slow.append(output)
            else:
                quick.append(output)
        outputs.outputs = quick
        last = None if quick else delivers
        self._slow.extend(SlowOutput(output, last if output is slow[-1] else None) for output in slow)
        if quick:
            self._outputs.append((outputs, delivers))
        self._news.set()

    async def get(self) -> EngineCoreOutputs:
        """Wait for the next outputs; those before them have been put into their streams by now."""
        self._watch_delivery()
        if self.direct.waiting:
            self.direct.open(self._queued_by_request)
        # A queue that holds something answers at once: whoever else is on the loop would wait until it is empty.
        await asyncio.sleep(0)
        while not (self._outputs or self._slow):
            self._news.clear()
            await self._news.wait()
        outputs = EngineCoreOutputs()
        # On a busy loop a turn is long in coming: what has come meanwhile goes out in the same one.
        while self._outputs and len(outputs.outputs) < MOST_IN_A_TURN:
            more, delivers = self._outputs.popleft()
            outputs.outputs += more.outputs
            self._note(delivers)
        left = MOST_SLOW
        while self._slow and left > 0:
            outputs.outputs.append(output := self._next_slow())
            left -= _slowness(output)
        for output in outputs.outputs:
            _count_down(self._queued_by_request, output.request_id)
        return outputs

    def _is_slow(self, output: EngineCoreOutput) -> bool:
        """Tell whether an output takes long, or comes after one of its request that does."""
        has_logprobs = output.new_logprobs is not None or output.new_prompt_logprobs_tensors is not None
        return has_logprobs or output.request_id in self._slow_by_request

    def _next_slow(self) -> EngineCoreOutput:
        output, delivers = self._slow.popleft()
        _count_down(self._slow_by_request, output.request_id)
        self._note(delivers)
        return output

    def _note(self, delivers: Delivery | None) -> None:
        if delivers is not None:
            self._handed_over.append(delivers)

    def _watch_delivery(self) -> None:
        """Tell of what was handed over once the streams that it is in have written it, in the loop's next turn."""
        if self._handed_over:
            handed_over, self._handed_over = self._handed_over, []
            asyncio.get_running_loop().call_soon(self._tell, handed_over)

    def _tell(self, handed_over: list[Delivery]) -> None:
        for device, at_s in handed_over:
            self._on_delivery(device, at_s)


def _slowness(output: EngineCoreOutput) -> int:
    """Return as how many outputs with a token's log probabilities one counts."""
    of_prompt = output.new_prompt_logprobs_tensors
    return 1 if of_prompt is None else 1 + of_prompt.logprobs.numel() // AS_SLOW


def _count_down(counts: Counter[str], request_id: str) -> None:
    """Count one less of a request, which is no longer counted where none is left."""
    counts[request_id] -= 1
    if not counts[request_id]:
        del counts[request_id]


def _plain_of_chunk(chunk: Chunk) -> list[int] | None:
    """Return the tokens of a chunk that has nothing else."""
    return chunk.tokens if chunk.finish is None and chunk.extra is None else None


def _plain_of_output(output: EngineCoreOutput) -> list[int] | None:
    """Return the tokens of an output that has nothing else."""
    alone = output.finish_reason is None and output.new_logprobs is None
    return output.new_token_ids if alone else None
