"""Does everybody on the edge's event loop get a turn while more comes from the devices than clients can be sent?"""

import asyncio

from vllm.v1.engine import EngineCoreOutput, EngineCoreOutputs

from serving.edge.engine_core import MOST_IN_A_TURN, PacedCore

RELEASES, STREAMS = 200, 48
A_TURN = -(-MOST_IN_A_TURN // STREAMS)


def test_others_have_a_turn_between_a_few_releases() -> None:
    async def turns() -> int:
        core, had = PacedCore.__new__(PacedCore), 0
        core._outputs, core._handed_over = asyncio.Queue(), []
        core._note_delay = lambda handed_over: None  # type: ignore[method-assign]  # nobody counts here
        for _ in range(RELEASES):
            core._outputs.put_nowait((EngineCoreOutputs(0, [EngineCoreOutput("r", [1])] * STREAMS), 0.0))

        async def another() -> None:
            nonlocal had
            while True:
                had += 1
                await asyncio.sleep(0)

        other = asyncio.ensure_future(another())
        seen = 0
        while seen < RELEASES * STREAMS:
            seen += len((await core.get_output_async()).outputs)
        other.cancel()
        assert seen == RELEASES * STREAMS
        return had

    assert asyncio.run(turns()) >= RELEASES // A_TURN
