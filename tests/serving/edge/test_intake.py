"""Are requests taken in a few at a time, in order, and is no place lost?"""

import asyncio

from serving.call import Call
from serving.clock import WallClock
from serving.edge.arrivals import Arrivals
from serving.edge.intake import PATIENCE_S, PLACES, Intake

CROWD = 20
CLOCK = WallClock(0.0)


def test_a_few_are_taken_in_and_the_next_when_one_has_landed_or_ended() -> None:
    async def main() -> list[int]:
        intake, calls, seen, inside = (
            Intake(Arrivals(CLOCK)),
            [Call(0.0) for _ in range(CROWD)],
            list[int](),
            list[int](),
        )

        async def enter(number: int) -> None:
            await intake.enter(calls[number])
            inside.append(number)

        tasks = [asyncio.create_task(enter(number)) for number in range(CROWD)]
        for number in range(CROWD):
            for _ in range(5):
                await asyncio.sleep(0)
            seen.append(len(inside) - number)
            # Each of them gives its place back twice; that is one place all the same.
            intake.leave(calls[number])
            calls[number].end(None)
        await asyncio.gather(*tasks)
        assert inside == list(range(CROWD))
        return seen

    seen = asyncio.run(main())
    assert max(seen) == PLACES and min(seen) >= 1


def test_whoever_waits_for_something_else_keeps_nobody_from_it_for_long() -> None:
    async def main() -> float:
        intake, loop = Intake(Arrivals(CLOCK)), asyncio.get_running_loop()
        began_s = loop.time()
        for _ in range(PLACES + 1):
            await intake.enter(Call(0.0))
        return loop.time() - began_s

    assert PATIENCE_S * 0.5 < asyncio.run(main()) < PATIENCE_S * 40


def test_who_goes_away_while_waiting_takes_no_place() -> None:
    async def main() -> None:
        intake, calls = Intake(Arrivals(CLOCK)), [Call(0.0) for _ in range(PLACES)]
        for call in calls:
            await intake.enter(call)
        waiting = asyncio.create_task(intake.enter(Call(0.0)))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        for call in calls:
            intake.leave(call)
        async with asyncio.timeout(PATIENCE_S / 2):
            for _ in range(PLACES):
                await intake.enter(Call(0.0))

    asyncio.run(main())
