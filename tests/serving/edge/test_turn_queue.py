"""Does a crowd leave room for others?"""

import asyncio

from serving.edge.turn_queue import TurnQueue

CROWD = 50


def turns_of_others(turns: TurnQueue | None) -> list[int]:
    """How often another task had its turn before each of a crowd had its own."""
    turns, seen = 0, []

    async def other() -> None:
        nonlocal turns
        while len(seen) < CROWD:
            turns += 1
            await asyncio.sleep(0)

    async def one() -> None:
        if turns is not None:
            await turns.enter()
        seen.append(turns)

    async def main() -> None:
        await asyncio.gather(other(), *(one() for _ in range(CROWD)))

    asyncio.run(main())
    return seen


def test_between_two_of_a_crowd_others_have_a_turn() -> None:
    assert len(set(turns_of_others(None))) == 1
    assert len(set(turns_of_others(TurnQueue()))) == CROWD


def test_who_goes_away_while_waiting_holds_nobody_up() -> None:
    async def main() -> list[bool]:
        turns = TurnQueue()
        tasks = [asyncio.create_task(turns.enter()) for _ in range(10)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        found = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 10)
        await turns.enter()
        return [isinstance(each, asyncio.CancelledError) for each in found]

    assert asyncio.run(main()) == [True, False] * 5
