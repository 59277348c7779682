"""Kill the token source under streams, again and again: python -m tests.soak.recovery --kills 5 [--standby-sources 1]

How long the longest silence of a stream is, from the kill on, and that all tokens come out as ever.
"""

import argparse
import statistics
import sys
import time

from serving.process.server_process import ServerProcess, server
from tests.soak.chaos import settle, victims
from tests.soak.streams import SeededStreams

STREAMS = 8


def recovery(child: ServerProcess, kills: int) -> list[str]:
    """What was found, each in a line; what was measured is printed."""
    found, silences_s = list[str](), list[float]()
    for _ in range(kills):
        settle(child)
        streams = SeededStreams(child, STREAMS, max_tokens=200)
        with streams:
            time.sleep(3.0)
            source = min(victims(child, "TokenSource"), key=lambda process: process.create_time())
            source.kill()
            settle(child)
            time.sleep(2.0)
        silences_s.append(streams.seen.gap(0))
        found += streams.seen.lost
    shown = ", ".join(f"{silence:.1f}" for silence in silences_s)
    print(f"longest silence of a stream after a kill of the source, in seconds: {shown}", end="")
    print(f" (median {statistics.median(silences_s):.1f})")
    return found


def main() -> int:
    """0 if nothing was found, 1 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=5)
    args, options = parser.parse_known_args()
    with server(*options, quiet=True) as child:
        found = recovery(child, args.kills)
    for each in found:
        print(each)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
