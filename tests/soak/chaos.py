"""Kill and stop a server's processes, singly and in pairs, beside seeded streams: python -m tests.soak.chaos --hits 200

No token may be lost, changed or repeated, no stream be silent for `HANG_S`, and no counter fall. At the end the raylet
is killed, and the server must end.
"""

import argparse
import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping

import httpx
import psutil
from prometheus_client.parser import text_string_to_metric_families

from serving.process.forks.fork_off import ACTOR_FORKS, EDGE, FORK_SERVER
from serving.process.server_process import ServerProcess, server
from tests.serving.forks import FORKS, is_named
from tests.soak.levels import family
from tests.soak.streams import HANG_S, SeededStreams

ACTORS = ("HbXpu", "SchedulerActor", "LpddrActor", "DeviceModelActor", "TokenSource")
# An edge in a process of its own, whose connections end with it; another one takes its place.
KEPT = (*ACTORS, EDGE, FORK_SERVER, ACTOR_FORKS)
# What Ray starts beside its raylet and GCS, and can do without.
HELPERS = ("monitor.py", "log_monitor.py", "dashboard/dashboard.py")
STREAMS = 16
PAUSE_S = (1.0, 6.0)
SETTLED_S = 120.0
PROBE_S = 10.0
ENDED_S = 40.0
# So large a share of hits waits until all parts are up again; the rest hits what is just being mended.
SETTLING = 0.75
LONGEST = 8
"""So many of the longest waits for all parts are told."""


def is_of_kind(process: psutil.Process, kind: str) -> bool:
    """Tell whether a process is an actor of a kind, a fork, or runs a program of that name."""
    if kind in FORKS:
        return is_named(process, kind)
    words = process.cmdline()
    return bool(words) and (words[0].startswith(f"ray::{kind}") or any(word.endswith(kind) for word in words))


def victims(child: ServerProcess, kind: str) -> list[psutil.Process]:
    """The processes of a kind that are there now."""
    found = []
    for pid in family(child.process.pid):
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            if is_of_kind(process, kind):
                found.append(process)
    return found


def hit(child: ServerProcess, draw: random.Random) -> list[str]:
    """Kill or stop one process, or two at once; what was done to which kind."""
    hits = []
    # Helpers of Ray's do not come back.
    kinds = [kind for kind in (*ACTORS, *KEPT, *HELPERS) if victims(child, kind)]
    for kind in draw.sample(kinds, min(len(kinds), draw.choice((1, 1, 2)))):
        how = draw.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP)) if kind in KEPT else signal.SIGKILL
        there = victims(child, kind)
        with contextlib.suppress(psutil.NoSuchProcess):
            if there:
                draw.choice(there).send_signal(how)
                hits.append(f"{kind} {how.name}")
    return hits


def probed(child: ServerProcess, path: str) -> httpx.Response:
    """The answer to a probe; an edge that has just been hit gives none, and another one does."""
    end_s = time.monotonic() + HANG_S
    while True:
        try:
            return httpx.get(child.http_url + path, timeout=PROBE_S)
        except httpx.TransportError:
            if time.monotonic() > end_s:
                raise
            time.sleep(1.0)


def counters(child: ServerProcess) -> dict[str, float]:
    """Each counter of a server, by its name and labels."""
    text = probed(child, "/metrics").text
    return {
        f"{sample.name} {sorted(sample.labels.items())}": sample.value
        for metric in text_string_to_metric_families(text)
        if metric.type in ("counter", "histogram")
        for sample in metric.samples
        if not sample.name.endswith("_created")
    }


def fallen(before: Mapping[str, float], after: Mapping[str, float]) -> list[str]:
    """The counters that fell, or are gone."""
    return [
        f"{name}: {was} before, {after.get(name)} after" for name, was in before.items() if after.get(name, -1) < was
    ]


def chaos(child: ServerProcess, hits: int, seed: int, seconds: float) -> list[str]:
    """Hit so often, or for so long; what was found, each in a line."""
    draw, done, end_s = random.Random(seed), Counter[str](), time.monotonic() + seconds
    away, recent = list[tuple[float, str]](), list[str]()
    streams, found = SeededStreams(child, STREAMS, max_tokens=200), list[str]()
    known = counters(child)
    with streams:
        while done.total() < hits and time.monotonic() < end_s:
            time.sleep(draw.uniform(*PAUSE_S))
            if draw.random() < SETTLING:
                away.append((settle(child), ", ".join(recent)))
                recent = []
            recent += (new := hit(child, draw))
            done.update(new)
            now = counters(child)
            found += fallen(known, now)
            known = now
        settle(child)
    print(f"{sum(done.values())} hits: {dict(done)}")
    print(streams.report())
    for waited_s, after in sorted(away, reverse=True)[:LONGEST]:
        print(f"{waited_s:.0f} s until all parts were up after: {after}")
    found += streams.seen.wrong
    if found:
        print(state(child))
    if not any(kind.startswith(EDGE) for kind in done):
        found += streams.seen.broken
    silent = [gap for gap in streams.seen.gaps if gap > HANG_S]
    return found + [f"a stream was silent for {gap:.0f} s" for gap in silent]


def state(child: ServerProcess) -> str:
    """What a server says of its parts, and of requests that may hang."""
    told = re.compile(
        r"^foreserve_(requests|queue|batch_size_sum|released|underruns|unreadable|actor_restarts|busy).* .*$", re.M
    )
    text = probed(child, "/metrics").text
    return "\n".join((probed(child, "/ready").text, *(found.group() for found in told.finditer(text))))


def settle(child: ServerProcess) -> float:
    """Wait until all parts are up again; for how many seconds."""
    began_s = time.monotonic()
    while time.monotonic() < began_s + SETTLED_S:
        told = probed(child, "/ready").json()["parts"]
        if set(told.values()) == {"up"}:
            return time.monotonic() - began_s
        time.sleep(1.0)
    raise TimeoutError(f"After {SETTLED_S:.0f} s not all parts are up: {told}")


def lose_raylet(child: ServerProcess) -> list[str]:
    """Kill what no server can do without: it must end, and say so by its exit code."""
    (raylet,) = (psutil.Process(pid) for pid in family(child.process.pid) if psutil.Process(pid).name() == "raylet")
    raylet.kill()
    try:
        code = child.process.wait(ENDED_S)
    except subprocess.TimeoutExpired:
        return [f"{ENDED_S:.0f} s after its raylet was killed the server is still there"]
    return [] if code == os.EX_TEMPFAIL else [f"after its raylet was killed the server ended with {code}"]


def main() -> int:
    """0 if nothing was found, 1 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hits", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=3600.0, help="end after so many, though there are hits left")
    parser.add_argument("--seed", type=int, default=0)
    args, options = parser.parse_known_args()
    with server("--devices", "2", *options, quiet=True) as child:
        found = chaos(child, args.hits, args.seed, args.seconds) + lose_raylet(child)
    for each in found:
        print(each)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
