"""Does everybody on the edge's event loop get a turn while more comes from the devices than clients can be sent?"""

import asyncio

from vllm.v1.engine import EngineCoreOutput, EngineCoreOutputs

from serving.edge.output_queue import MOST_IN_A_TURN, OutputQueue

RELEASES, STREAMS = 200, 48
A_TURN = -(-MOST_IN_A_TURN // STREAMS)


def test_others_have_a_turn_between_a_few_releases() -> None:
    delivered = list[tuple[int, float]]()

    async def turns() -> int:
        had, queue = 0, OutputQueue(lambda device, at_s: delivered.append((device, at_s)))
        for release in range(RELEASES):
            queue.put(EngineCoreOutputs(0, [EngineCoreOutput("r", [1])] * STREAMS), float(release))

        async def another() -> None:
            nonlocal had
            while True:
                had += 1
                await asyncio.sleep(0)

        other = asyncio.ensure_future(another())
        seen = 0
        while seen < RELEASES * STREAMS:
            seen += len((await queue.get()).outputs)
        other.cancel()
        assert seen == RELEASES * STREAMS
        return had

    assert asyncio.run(turns()) >= RELEASES // A_TURN
    # Of the last ones it is told with what comes next.
    assert delivered == [(0, float(release)) for release in range(len(delivered))]
    assert len(delivered) >= RELEASES - A_TURN
