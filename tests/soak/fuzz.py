"""Fuzz a server beside six seeded streams: python -m tests.soak.fuzz --http 10000 --grpc 5000"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from functools import partial

import httpx

from serving.process.server_process import ServerProcess, server
from tests.soak import fuzz_grpc, fuzz_http
from tests.soak.fuzz_http import Answers
from tests.soak.late_batches import AGAIN, LateBatches
from tests.soak.levels import levels
from tests.soak.streams import Lateness, SeededStreams

SHOWN = 20
# Schemathesis needs half a second to think of a request: one in so many is its.
BY_SCHEMA = 10


def main() -> int:
    """0 if nothing was found, 1 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--http", type=int, default=10_000, help="HTTP requests, a tenth of them by schemathesis")
    parser.add_argument("--grpc", type=int, default=5_000, help="gRPC calls")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--speed", default="1", help="of the server's emulation")
    args = parser.parse_args()
    with server("--devices", "2", "--speed", args.speed, "--max-model-len", "1024", quiet=True) as child:
        # A client elsewhere takes none of the server's time; one here is to take no more than is left.
        os.nice(19)
        found = fuzz(child, args.http, args.grpc, args.seed)
    for each in found[:SHOWN]:
        print(each)
    return 1 if found else 0


def fuzz(child: ServerProcess, http: int, grpc: int, seed: int, *, again: int = AGAIN) -> list[str]:
    """What was found, each in a line; what was done is printed. Requests beside which streams are late so many times
    `again` are found, too; with 0 none are, as on a machine that is late by itself."""
    before, punctual = restarts(child), Lateness.of(child)
    streams = SeededStreams(child)
    found: list[str] = []
    with streams:
        cases = fuzz_http.of_schema(child, http // BY_SCHEMA, seed) if http >= BY_SCHEMA else []
        print(f"Thinking of {len(cases)} by schema: {Lateness.of(child).since(punctual)}")
        parts: tuple[tuple[str, Callable[[LateBatches, Answers], None]], ...] = (
            ("HTTP by hand", partial(fuzz_http.by_hand, count=http - http // BY_SCHEMA, number=seed)),
            ("HTTP by schema", partial(fuzz_http.by_schema, cases=cases)),
            ("gRPC by hand", partial(fuzz_grpc.by_hand, count=grpc, number=seed)),
        )
        for name, send in parts:
            answers, batches, began = Answers(), LateBatches(child, again), time.monotonic()
            send(batches, answers)
            took_s = time.monotonic() - began
            print(f"{name}: {answers.counts.total()} in {took_s:.0f} s: {dict(answers.counts)}; {batches}")
            found += answers.failures + batches.causes
    print(f"{Lateness.of(child).since(punctual)}; {streams.report()}")
    for name, level in levels(child.process.pid).items():
        print(f"{name}: {level}")
    if not httpx.get(f"{child.http_url}/health").is_success:
        found.append("/health says that it is not well.")
    if after := restarts(child) - before:
        found.append(f"{after:.0f} actors were restarted.")
    return found + streams.seen.lost


def restarts(child: ServerProcess) -> float:
    """How often parts of a server were started again."""
    lines = httpx.get(f"{child.http_url}/metrics").text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("foreserve_actor_restarts_total"))


if __name__ == "__main__":
    sys.exit(main())
