"""How long one request makes six seeded streams wait: python -m tests.soak.poison

Each poison is as large as the bounds let it be, or larger. Its cost is how much longer than usual the streams, and a
probe of the event loop, waited while it was served.
"""

import argparse
import json
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx

from serving.process.server_process import ServerProcess, server
from tests.conftest import MODEL
from tests.soak.streams import Lateness, SeededStreams

MIB = 1 << 20
HELLO = [{"role": "user", "content": "Hi"}]
TEXT: dict[str, Any] = {"model": MODEL, "prompt": "Hi", "max_tokens": 2}
CHAT: dict[str, Any] = {"model": MODEL, "messages": HELLO, "max_tokens": 2}
PROBE_EVERY_S = 0.002


def schema(levels: int) -> dict[str, Any]:
    """One that doubles with each level."""
    made: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        made = {"type": "object", "properties": {"a": made, "b": made}, "required": ["a"]}
    return made


def poisons() -> dict[str, tuple[str, Any]]:
    """Path and body of each, by name."""
    words = "word " * 60_000
    text, chat, tokenize = "/v1/completions", "/v1/chat/completions", "/tokenize"
    return {
        "60,000 words": (text, TEXT | {"prompt": words}),
        "60,000 words in a chat": (chat, CHAT | {"messages": [{"role": "user", "content": words}]}),
        "30,000 words to tokenize": (tokenize, {"model": MODEL, "prompt": "word " * 30_000}),
        "160,000 digits to tokenize": (tokenize, {"model": MODEL, "prompt": "1" * 160_000}),
        "text that fits, cut": (text, TEXT | {"prompt": "a b, c. " * 20_000, "truncate_prompt_tokens": 900}),
        "one long word": (tokenize, {"model": MODEL, "prompt": "a" * 150_000}),
        "2 MiB of text": (text, TEXT | {"prompt": "x" * (2 * MIB - 1000)}),
        "64 prompts": (text, TEXT | {"prompt": ["many words " * 400] * 64, "max_tokens": 1}),
        "n of 64": (text, TEXT | {"n": 64, "max_tokens": 1}),
        "a prompt of 30,000 tokens": (text, TEXT | {"prompt": [5] * 30_000}),
        "60,000 token ids": (text, TEXT | {"prompt": [5] * 60_000}),
        "60,000 empty lists": (text, TEXT | {"prompt": [[] for _ in range(60_000)]}),
        "500,000 empty lists": (text, TEXT | {"x": [[] for _ in range(500_000)]}),
        "2,000 messages": (chat, CHAT | {"messages": HELLO * 2000}),
        "2,000 bad messages": (chat, CHAT | {"messages": [{"role": "user", "content": [{}] * 5}] * 2000}),
        "30,000 bad parts": (chat, CHAT | {"messages": [{"role": "user", "content": [{}] * 30_000}]}),
        "20,000 bad inputs": ("/v1/responses", {"model": MODEL, "input": [{"a": []}] * 2000}),
        "128 tools": (chat, CHAT | {"tools": [tool(index) for index in range(128)]}),
        "128 tools, required": (
            chat,
            CHAT | {"tools": [tool(index) for index in range(128)], "tool_choice": "required"},
        ),
        "64 stops": (text, TEXT | {"stop": ["ab" * 400 + str(index) for index in range(64)], "max_tokens": 200}),
        "128 bad words": (text, TEXT | {"bad_words": [f"word {index}" for index in range(128)], "max_tokens": 200}),
        "1,024 biases": (text, TEXT | {"logit_bias": {str(index): 1 for index in range(1024)}, "max_tokens": 200}),
        "schema of 30 KB": (text, TEXT | {"structured_outputs": {"json": schema(8)}}),
        "schema of 250 KB": (text, TEXT | {"structured_outputs": {"json": schema(12)}}),
        "enum of 3,000": (text, TEXT | {"structured_outputs": {"choice": [f"v{index}" for index in range(3000)]}}),
        "regex of repeats": (text, TEXT | {"structured_outputs": {"regex": "((.{1,100}x){1,100}y){1,100}"}}),
        "prompt_logprobs": (text, TEXT | {"prompt": "words and words " * 230, "prompt_logprobs": 20, "max_tokens": 1}),
        "logprobs of all": (text, TEXT | {"logprobs": 20, "max_tokens": 500}),
        "log probabilities of 64 choices": (text, TEXT | {"n": 64, "logprobs": 20, "max_tokens": 100}),
        "64 conversations with log probabilities": (
            "/v1/chat/completions/batch",
            CHAT | {"messages": [HELLO] * 64, "logprobs": True, "top_logprobs": 20, "max_tokens": 100},
        ),
        "128 items to score": (
            "/generative_scoring",
            {"model": MODEL, "query": "Which one?", "items": ["one of many"] * 128, "label_token_ids": [5, 6]},
        ),
        "128 items of 2,000 characters": (
            "/generative_scoring",
            {"model": MODEL, "query": "w", "items": ["a b c " * 333] * 128, "label_token_ids": [5, 6]},
        ),
        "128 items after 2,000 characters": (
            "/generative_scoring",
            {"model": MODEL, "query": "a b c " * 333, "items": ["w"] * 128, "label_token_ids": [5, 6]},
        ),
        "log probabilities of named tokens": (
            text,
            TEXT | {"logprobs": 1, "logprob_token_ids": [1, 2, 9], "max_tokens": 100},
        ),
        "echo of much": (
            text,
            TEXT | {"prompt": "words and words " * 230, "echo": True, "logprobs": 5, "max_tokens": 1},
        ),
        "nested 5,000 deep": (text, b'{"a":' * 5000 + b"1" + b"}" * 5000),
    }


def tool(index: int) -> dict[str, Any]:
    """A function of some arguments."""
    arguments = {f"argument{i}": {"type": "string", "description": "what it is for"} for i in range(8)}
    return {
        "type": "function",
        "function": {"name": f"f{index}", "parameters": {"type": "object", "properties": arguments}},
    }


class Probe:
    """Asks a cheap question again and again; the longest wait for an answer since the last look."""

    def __init__(self, child: ServerProcess) -> None:
        self._url = f"{child.http_url}/ping"
        self._longest_s = 0.0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def look(self) -> float:
        """In seconds."""
        longest_s, self._longest_s = self._longest_s, 0.0
        return longest_s

    def stop(self) -> None:
        """No more."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        with httpx.Client(timeout=60) as client:
            while not self._stopped.wait(PROBE_EVERY_S):
                began = time.monotonic()
                client.get(self._url)
                self._longest_s = max(self._longest_s, time.monotonic() - began)


def measure(child: ServerProcess, tries: int, say: Callable[[str], None], only: str = "") -> dict[str, float]:
    """For how long the event loop was busy, in the best of some tries of each poison, in seconds: noise is not its.

    Beside it stands how many releases came late to their streams. The gaps of the streams themselves say less: what is
    admitted lengthens the steps of the device that it is on, as it should.
    """
    streams, probe, cost = SeededStreams(child), Probe(child), {}
    say(f"{'':40} status  took s  probe ms  late")
    with streams, httpx.Client(timeout=120) as client:
        for name, (path, body) in {"nothing": ("/ping", {}), **poisons()}.items():
            if only not in name:
                continue
            sent = body if isinstance(body, bytes) else json.dumps(body).encode()
            rows = []
            for _ in range(tries):
                time.sleep(0.3)
                before, _ = Lateness.of(child), probe.look()
                began = time.monotonic()
                answer = client.post(child.http_url + path, content=sent, headers={"content-type": "application/json"})
                took_s = time.monotonic() - began
                time.sleep(0.2)
                probed_s = probe.look()
                rows.append((Lateness.of(child).since(before).late, probed_s, took_s, answer.status_code))
            late, probe_s, took_s, status = min(rows)
            cost[name] = min(row[1] for row in rows)
            say(f"{name:40} {status:6} {took_s:7.2f} {1000 * probe_s:9.0f} {late:5}")
    probe.stop()
    say(f"{Lateness.of(child)}; {streams.report()}")
    return cost


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=3)
    parser.add_argument("--only", default="", help="poisons with this in their names")
    args, options = parser.parse_known_args()
    with server("--devices", "2", *options, quiet=True) as child:
        measure(child, args.tries, print, args.only)


if __name__ == "__main__":
    main()
