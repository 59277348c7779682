"""Does all that the engine core sends an edge arrive, whenever it sends it?"""

import asyncio
from pathlib import Path

from vllm.v1.engine import EngineCoreOutputs, UtilityOutput
from vllm.v1.serial_utils import MsgpackDecoder, UtilityResult

from serving.edge.front_ends.edge_wires import CoreWire, EdgeWire
from tests.serving.edge.front_ends.test_front_end import READY

PATIENCE_S = 10.0


def test_what_comes_with_the_greeting_is_handed_over_before_what_follows(tmp_path: Path) -> None:
    """As an abort at another edge does, while this one starts."""

    async def run() -> None:
        mine, got, turns = CoreWire(tmp_path / "wire"), list[int](), list[int]()
        core, decoder = await EdgeWire.to(tmp_path / "wire"), MsgpackDecoder(EngineCoreOutputs)

        def send(number: int) -> None:
            core.send(EngineCoreOutputs(utility_output=UtilityOutput(number, result=UtilityResult(b""))))

        core.greet(READY)
        send(1)
        send(2)
        assert (await mine.ready()).max_model_len == READY.max_model_len
        mine.listen(lambda frames: got.append(decoder.decode(frames).utility_output.call_id), lambda: turns.append(1))
        send(3)
        async with asyncio.timeout(PATIENCE_S):
            while len(got) < 3:
                await asyncio.sleep(0.001)
        assert got == [1, 2, 3] and len(turns) == 2
        mine.close()
        core.close()

    asyncio.run(run())
