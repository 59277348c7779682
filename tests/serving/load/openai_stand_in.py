"""A stand-in for a foreign OpenAI server: raw HTTP/1.1 on asyncio, so that it can also misbehave.

`python openai_stand_in.py STEP_S` serves on a free port, which it prints. The model's name says what it does.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
REFUSALS = {
    "bad": (400, {"error": {"message": "`temperature` must be at least 0.", "param": "temperature"}}),
    "missing": (404, {"error": {"message": "There is no model missing."}}),
    "full": (429, {"error": {"message": "The queue is full."}}),
    "broken": (500, "not even JSON"),
}
CUT = b"cut"
TROUBLE = {
    "drops": None,
    "cut": CUT,
    "garbage": b"{nonsense",
    "endless": b"x" * (17 << 20),
    "fails": b'{"error": {"message": "Out of luck."}}',
}


class StandIn:
    """`metrics` is what /metrics answers, 404 if empty; `seen` keeps the request bodies."""

    def __init__(self, step_s: float = 0.0, metrics: list[str] | None = None) -> None:
        self.step_s, self.metrics = step_s, metrics or []
        self.seen: list[dict[str, Any]] = []
        self.headers: list[bytes] = []
        self.connections = self.hung_up = 0

    async def start(self) -> str:
        """Its URL."""
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        self.server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next((int(v) for k, _, v in _fields(head) if k == b"content-length"), 0)
                content = await reader.readexactly(length)
                if not await self._answer(head, content, writer):
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    async def _answer(self, head: bytes, content: bytes, writer: asyncio.StreamWriter) -> bool:
        route = head.split(b" ", 2)[1]
        self.headers.append(head)
        if route == b"/v1/models":
            _whole(writer, 200, {"data": [{"id": "good"}, {"id": "other"}]})
        elif route == b"/metrics":
            text = self.metrics.pop(0) if len(self.metrics) > 1 else "".join(self.metrics)
            _whole(writer, 200 if text else 404, text)
        else:
            asked = json.loads(content)
            self.seen.append(asked)
            if asked["model"] in REFUSALS:
                _whole(writer, *REFUSALS[asked["model"]])
            else:
                return await self._stream(asked, "messages" in asked, writer)
        await writer.drain()
        return True

    async def _stream(self, asked: dict[str, Any], chat: bool, writer: asyncio.StreamWriter) -> bool:
        """Whether the connection can be used again."""
        if asked["model"] == "away":  # As a proxy says it that has no server to ask: without a length.
            writer.write(b"HTTP/1.0 503 X\r\nConnection: close\r\n\r\nNo server is there.")
            return False
        writer.write(HEAD)
        try:
            calls = asked["model"] == "calls" and asked.get("tool_choice") == "required"
            payloads = self._call(len(self.seen)) if calls else self._events(asked["model"], asked["max_tokens"], chat)
            async for payload in payloads:
                if payload == CUT:
                    break
                if payload is None:
                    return False
                data = b"data: " + payload + b"\n\n"
                writer.write(b"%x\r\n%b\r\n" % (len(data), data))
                await writer.drain()
            writer.write(b"0\r\n\r\n")
        except ConnectionError:
            self.hung_up += 1
            return False
        return True

    async def _call(self, number: int) -> AsyncIterator[bytes | None]:
        """The payloads of a call of a tool: its arguments come in pieces, and every fourth is cut off."""
        yield _chunk({"role": "assistant", "content": ""}, True)
        function = {"name": "search", "arguments": '{"query": '}
        call = {"index": 0, "id": f"id-{number}", "type": "function", "function": function}
        yield _chunk({"tool_calls": [call]}, True)
        ends = "" if number % 4 == 0 else f'"{number}", "most": 2}}'
        yield _chunk({"tool_calls": [{"index": 0, "function": {"arguments": ends}}]}, True, "tool_calls")
        usage = {"prompt_tokens": 7, "completion_tokens": 9, "total_tokens": 16}
        yield json.dumps({"choices": [], "usage": usage}).encode()
        yield b"[DONE]"

    async def _events(self, what: str, n: int, chat: bool) -> AsyncIterator[bytes | None]:
        """The payloads of a stream; None drops the connection, CUT ends the answer as if it were whole."""
        if chat:
            yield _chunk({"role": "assistant", "content": ""}, chat)
        for i in range(n):
            await asyncio.sleep(self.step_s)
            if what == "pairs" and i % 2 == 1:
                continue  # Its token came with the one before.
            yield _chunk(" w", chat, "length" if i == n - 1 else None)
            if i == 1 and what in TROUBLE:
                yield TROUBLE[what]
        if what != "uncounted":
            usage = {"prompt_tokens": 7, "completion_tokens": n, "total_tokens": n + 7}
            yield json.dumps({"choices": [], "usage": usage}).encode()
        yield b"[DONE]"


def _chunk(news: Any, chat: bool, finish: str | None = None) -> bytes:
    delta = news if isinstance(news, dict) else {"content": news}
    choice = {"index": 0, "finish_reason": finish} | ({"delta": delta} if chat else {"text": news})
    return json.dumps({"id": "cmpl-1", "object": "chunk", "model": "m", "choices": [choice]}).encode()


def _whole(writer: asyncio.StreamWriter, status: int, answer: Any) -> None:
    content = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
    writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (status, len(content)) + content)


def _fields(head: bytes) -> list[tuple[bytes, bytes, bytes]]:
    return [line.lower().partition(b": ") for line in head.split(b"\r\n")[1:]]


async def _main(step_s: float) -> None:
    print(await StandIn(step_s).start(), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_main(float(sys.argv[1])))
