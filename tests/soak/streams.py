"""Seeded streams beside whatever is done to a server: their text must stay what it is when nothing is done."""

import math
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import grpc
import httpx
import msgspec
from google.protobuf import json_format

from serving.api.pb.foreserve.v1 import openai_pb2 as pb
from serving.api.pb.foreserve.v1 import openai_pb2_grpc
from serving.process.server_process import ServerProcess
from tests.conftest import MODEL

QUESTIONS = (
    "What is a cache?",
    "Why is the sky blue?",
    "Prove it.",
    "Tell me of a law.",
    "And a puzzle?",
    "Sum 3 and 4.",
)
# Nothing legitimate is silent for longer.
HANG_S = 30.0
# Who waits for longer than that beyond a token's instant waits because of somebody else.
LATE_S = 0.05
BUCKET = re.compile(r'^foreserve_delivery_delay_seconds_bucket{.*le="(\S+)".*} (\S+)$', re.MULTILINE)


@dataclass(slots=True)
class Seen:
    """What became of the streams: gaps are seconds until a chunk, from the one before it or from the request, `wrong`
    says which text was another, and `broken` which connection ended before its text did."""

    rounds: int = 0
    gaps: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    @property
    def lost(self) -> list[str]:
        """Whatever a client would not want to see."""
        return self.wrong + self.broken

    def gap(self, share: float) -> float:
        """The gap that only so large a share is longer than, from the top: 0 is the longest."""
        ordered = sorted(self.gaps, reverse=True)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


class Lateness(NamedTuple):
    """How many releases of devices there were, and how many reached their streams later than `LATE_S` after the instant
    that the emulation gives them."""

    releases: int = 0
    late: int = 0

    @classmethod
    def of(cls, child: ServerProcess) -> "Lateness":
        """Since the start, on all devices."""
        text = httpx.get(f"{child.http_url}/metrics", timeout=HANG_S).text
        within: Counter[float] = Counter()
        for bound, count in BUCKET.findall(text):
            within[float(bound)] += int(float(count))
        return cls(within[math.inf], within[math.inf] - within[LATE_S])

    def since(self, before: "Lateness") -> "Lateness":
        """Without what was `before`."""
        return Lateness(self.releases - before.releases, self.late - before.late)

    def plus(self, more: "Lateness") -> "Lateness":
        """With what came later."""
        return Lateness(self.releases + more.releases, self.late + more.late)

    def __str__(self) -> str:
        return f"{self.late} of {self.releases} releases later than {1000 * LATE_S:.0f} ms"


class SeededStreams:
    """So many streams, half of them over gRPC, again and again while the context lasts."""

    def __init__(self, child: ServerProcess, count: int = 6, max_tokens: int = 64) -> None:
        self._child, self._count, self._max_tokens = child, count, max_tokens
        self.calm, self.seen = Seen(), Seen()
        self._texts = [self._text(index, self.calm) for index in range(count)]
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> "SeededStreams":
        self._threads = [threading.Thread(target=self._run, args=(index,)) for index in range(self._count)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join(2 * HANG_S)
            if thread.is_alive():
                self.seen.wrong.append("a stream hangs")

    def report(self) -> str:
        """What was seen, in a line."""
        calm, seen = ([1000 * each.gap(share) for share in (0.5, 0.01, 0)] for each in (self.calm, self.seen))
        return (
            f"{self.seen.rounds} streams beside it, {len(self.seen.wrong)} wrong, {len(self.seen.broken)} broken off; "
            f"ms until a chunk, p50/p99/most: {'/'.join(f'{ms:.0f}' for ms in seen)} "
            f"(calm: {'/'.join(f'{ms:.0f}' for ms in calm)})"
        )

    def _run(self, index: int) -> None:
        while not self._stopped.is_set():
            try:
                text = self._text(index, self.seen)
            except Exception as error:
                lost = self._seen_of(error)
                lost.append(f"stream {index}: {error!r}")
                time.sleep(0.5)
                continue
            self.seen.rounds += 1
            if text != self._texts[index]:
                self.seen.wrong.append(f"stream {index}: {text!r} instead of {self._texts[index]!r}")

    def _seen_of(self, error: Exception) -> list[str]:
        """Where an error belongs."""
        is_lost = isinstance(error, httpx.NetworkError | httpx.RemoteProtocolError)
        is_lost |= isinstance(error, grpc.RpcError) and error.code() is grpc.StatusCode.UNAVAILABLE
        return self.seen.broken if is_lost else self.seen.wrong

    def _text(self, index: int, seen: Seen) -> str:
        body = {
            "model": MODEL,
            "messages": [{"role": "user", "content": QUESTIONS[index % len(QUESTIONS)]}],
            "max_tokens": self._max_tokens,
            "seed": index,
            "ignore_eos": True,
        }
        ways = (_over_http, _over_grpc)
        parts, last_s = [], time.monotonic()
        for part in ways[index % len(ways)](self._child, body):
            now_s = time.monotonic()
            seen.gaps.append(now_s - last_s)
            last_s = now_s
            parts.append(part)
        return "".join(parts)


def _over_http(child: ServerProcess, body: dict[str, Any]) -> Iterator[str]:
    url = f"{child.http_url}/v1/chat/completions"
    with httpx.stream("POST", url, json=body | {"stream": True}, timeout=HANG_S) as answer:
        answer.raise_for_status()
        for line in answer.iter_lines():
            if line.startswith("data: {"):
                yield _content(msgspec.json.decode(line[len("data: ") :]))


def _content(chunk: dict[str, Any]) -> str:
    if "error" in chunk:
        raise RuntimeError(chunk["error"]["message"])
    return "".join(choice["delta"].get("content") or "" for choice in chunk["choices"])


def _over_grpc(child: ServerProcess, body: dict[str, Any]) -> Iterator[str]:
    with grpc.insecure_channel(child.grpc_url.removeprefix("grpc://")) as channel:
        stub = openai_pb2_grpc.OpenAIStub(channel)  # type: ignore[no-untyped-call]
        for chunk in stub.StreamChatCompletion(json_format.ParseDict(body, pb.ChatCompletionRequest()), timeout=300):
            yield "".join(choice.delta.content for choice in chunk.choices)
