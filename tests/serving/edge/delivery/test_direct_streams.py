"""Does the text of a plain stream stay in order, whichever way each of its tokens takes?"""

import asyncio
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from vllm.v1.engine import FinishReason

from serving.edge.delivery.output_queue import OutputQueue
from serving.edge.delivery.plain_stream import PlainStream
from serving.types import Chunk

REQUESTS = ("a", "b", "c")
# What happens: a release to some requests, of so many tokens each; the output handler's turn; a request is diverted.
RELEASE = st.dictionaries(st.sampled_from(REQUESTS), st.integers(1, 3), min_size=1)
HAPPENINGS = st.lists(st.one_of(RELEASE, st.none(), st.sampled_from(REQUESTS)), max_size=40)


def decoder(broken: int | None = None) -> Any:
    """A detokenizer as vLLM's: each token is its number and a comma; one token may be `broken`."""

    def decode_next(token: int) -> str:
        if token == broken:
            raise ValueError("no such token")
        return f"{token},"

    return SimpleNamespace(token_ids=[], decode_next=decode_next)


class Edge:
    """An output queue and its handler, which hands what is diverted to its stream, as `ApartOutputs` does."""

    def __init__(self, broken: int | None = None) -> None:
        self.delivered, self.failed = list[tuple[int, float]](), set[str]()
        self.queue = OutputQueue(lambda device, at_s: self.delivered.append((device, at_s)))
        self.streams = {id: PlainStream(id, decoder(broken)) for id in REQUESTS}
        self.diverted, self.by_handler = set[str](), 0
        self._made = dict.fromkeys(REQUESTS, 0)

    def release(self, tokens: dict[str, int], last: bool = False, flush: bool = True) -> None:
        chunks = [self._chunk(id, last and at == count - 1) for id, count in tokens.items() for at in range(count)]
        self.queue.put_chunks(0, 1.0, chunks)
        if flush:
            self.queue.flush()

    def _chunk(self, id: str, last: bool) -> Chunk:
        self._made[id] += 1
        return Chunk(id, self._made[id] - 1, [self._made[id] - 1], int(FinishReason.LENGTH) if last else None)

    def divert(self, id: str) -> None:
        if id not in self.diverted:
            self.diverted.add(id)
            self.queue.direct.add(self.streams[id])

    async def handle(self) -> None:
        for output in (await self.queue.get()).outputs:
            self.by_handler += 1
            if output.finish_reason is FinishReason.ERROR:
                self.failed.add(output.request_id)
            self.streams[output.request_id].add(output.new_token_ids)
            self.streams[output.request_id].flush()


@given(HAPPENINGS)
def test_text_is_whole_and_in_order(happenings: list[dict[str, int] | str | None]) -> None:
    async def run() -> None:
        edge = Edge()
        for what in happenings:
            if isinstance(what, dict):
                edge.release(what)
            elif what is not None:
                edge.divert(what)
            elif edge.queue._outputs:
                await edge.handle()
        edge.release(dict.fromkeys(REQUESTS, 2), last=True)
        while edge.queue._outputs:
            await edge.handle()
        for stream in edge.streams.values():
            assert await stream.kept(None) == "".join(f"{token}," for token in stream.tokens)
            assert stream.tokens == list(range(len(stream.tokens)))
        assert sum(len(stream.tokens) for stream in edge.streams.values()) == sum(edge._made.values())

    asyncio.run(run())


def test_a_stream_is_direct_once_nothing_of_it_is_queued_and_until_its_last_token() -> None:
    async def run() -> None:
        edge = Edge()
        edge.release({"a": 1})
        edge.divert("a")
        edge.release({"a": 1})
        await edge.handle()
        # Both were queued when the handler came, and nothing is when it comes again.
        edge.release({"b": 1})
        await edge.handle()
        edge.release({"a": 3})
        assert edge.by_handler == 3 and edge.streams["a"].tokens == [0, 1, 2, 3, 4]
        assert edge.delivered[-1] == (0, 1.0)
        edge.release({"a": 1}, last=True)
        assert edge.streams["a"].tokens == [0, 1, 2, 3, 4]
        await edge.handle()
        assert edge.streams["a"].tokens == [0, 1, 2, 3, 4, 5]

    asyncio.run(run())


def test_what_several_releases_give_a_stream_is_written_at_once_before_what_comes_last() -> None:
    async def run() -> None:
        edge, written = Edge(), list[str]()

        def write(text: str) -> bool:
            written.append(text)
            return True

        edge.divert("a")
        edge.queue.direct.open(())
        reader = asyncio.ensure_future(edge.streams["a"].kept(write))
        await asyncio.sleep(0)
        for _ in range(3):
            edge.release({"a": 2}, flush=False)
        edge.release({"a": 1}, last=True, flush=False)
        assert not written and not edge.delivered
        edge.queue.flush()
        assert written == ["0,1,2,3,4,5,"]
        # What came with the last token is delivered once the handler has had it.
        assert edge.delivered == [(0, 1.0)] * 3
        await edge.handle()
        assert edge.streams["a"].tokens == list(range(7))
        edge.streams["a"].end()
        await reader

    asyncio.run(run())


def test_who_cannot_be_written_to_fails_alone() -> None:
    async def run() -> None:
        edge = Edge(broken=2)
        for id in REQUESTS:
            edge.divert(id)
        edge.queue.direct.open(())
        edge.release({"a": 2, "b": 3, "c": 2})
        await edge.handle()
        assert edge.failed == {"b"} and edge.by_handler == 1
        edge.release({"a": 1, "c": 1})
        await edge.handle()
        assert edge.failed == {"a", "b", "c"}
        assert edge.delivered == [(0, 1.0)] * 2, "an error is no delivery of a device's"

    asyncio.run(run())


def test_whose_text_is_not_whole_does_not_end_well_with_its_last_token() -> None:
    async def run() -> None:
        edge = Edge(broken=0)
        edge.divert("a")
        edge.queue.direct.open(())
        edge.release({"a": 2}, last=True)
        await edge.handle()
        assert edge.failed == {"a"} and edge.by_handler == 1

    asyncio.run(run())
