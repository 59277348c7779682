"""Does a pause that a front end of vLLM's has asked for end with it, as the engine's would?"""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from vllm.v1.engine import EngineCoreRequestType
from vllm.v1.serial_utils import MsgpackEncoder

from serving.edge.front_ends.front_end import FrontEnd

ANY: Any = None


class Core:
    """An engine core whose pauses wait for what is in flight, for ever."""

    paused = False

    async def pause_scheduler_async(self, mode: str) -> None:
        self.paused = True
        await asyncio.Event().wait()

    async def resume_scheduler_async(self) -> None:
        self.end_pause()

    def end_pause(self) -> None:
        self.paused = False

    def cancel(self, ids: list[str]) -> None:
        """Nothing is in flight here."""


def ask(front_end: FrontEnd, method: str, *arguments: str) -> None:
    """Have a front end call the engine core."""
    server: Any = SimpleNamespace(send=lambda outputs: None)
    call = MsgpackEncoder().encode((0, 1, method, arguments))
    front_end._take(server, [EngineCoreRequestType.UTILITY.value, *call])


@pytest.mark.parametrize("resumed", [False, True])
def test_a_front_end_that_goes_takes_its_pause_with_it_and_nobody_elses(resumed: bool) -> None:
    async def main() -> None:
        core: Any = Core()
        front_end, other = (FrontEnd("anywhere", core, ANY) for _ in range(2))
        ask(front_end, "pause_scheduler", "wait")
        await asyncio.sleep(0)
        if resumed:
            ask(front_end, "resume_scheduler")
            await asyncio.sleep(0)
            assert not core.paused
            core.paused = True  # by an operator of ours
        other.part()
        assert core.paused
        front_end.part()
        assert core.paused is resumed

    asyncio.run(main())
