"""Outputs on their way to this process's own front end of vLLM's."""

import asyncio
from collections.abc import Callable

from vllm.v1.engine import EngineCoreOutputs

# Outputs that go out before others on the loop have their turn: some milliseconds at most.
MOST_IN_A_TURN = 128


class OutputQueue:
    """First in, first out. `on_delivery(device, at_s)` hears when what a device had at an instant has gone out."""

    def __init__(self, on_delivery: Callable[[int, float], None]) -> None:
        self._on_delivery = on_delivery
        self._outputs: asyncio.Queue[tuple[EngineCoreOutputs, float]] = asyncio.Queue()
        self._handed_over: list[tuple[int, float]] = []

    def put(self, outputs: EngineCoreOutputs, at_s: float) -> None:
        """Add the outputs of a device, which it had at an emulated instant."""
        self._outputs.put_nowait((outputs, at_s))

    async def get(self) -> EngineCoreOutputs:
        """Wait for the next outputs; those before them have been put into their streams by now."""
        self._watch_delivery()
        # A queue that holds something answers at once: whoever else is on the loop would wait until it is empty.
        await asyncio.sleep(0)
        outputs, at_s = await self._outputs.get()
        self._handed_over.append((outputs.engine_index, at_s))
        # On a busy loop a turn is long in coming: what has come meanwhile goes out in the same one.
        while not self._outputs.empty() and len(outputs.outputs) < MOST_IN_A_TURN:
            more, at_s = self._outputs.get_nowait()
            outputs.outputs += more.outputs
            self._handed_over.append((more.engine_index, at_s))
        return outputs

    def _watch_delivery(self) -> None:
        """What was handed over has been put into its streams; each of them writes in its next turn of the loop."""
        if self._handed_over:
            handed_over, self._handed_over = self._handed_over, []
            asyncio.get_running_loop().call_soon(self._tell, handed_over)

    def _tell(self, handed_over: list[tuple[int, float]]) -> None:
        for device, at_s in handed_over:
            self._on_delivery(device, at_s)
