"""How long /health takes to answer, asked by a process that does nothing else: python -m tests.soak.health URL SECONDS

Prints the seconds that each answer took, as a list of JSON; null for one that was not 200.
"""

import json
import sys
import time

import httpx

LOOK_S = 0.05


def main() -> None:
    """Ask again and again."""
    url, seconds = sys.argv[1], float(sys.argv[2])
    end_s, took_s = time.monotonic() + seconds, list[float | None]()
    with httpx.Client(base_url=url, timeout=30) as http:
        while (began_s := time.monotonic()) < end_s:
            well = http.get("/health").status_code == httpx.codes.OK
            took_s.append(time.monotonic() - began_s if well else None)
            time.sleep(LOOK_S)
    print(json.dumps(took_s))


if __name__ == "__main__":
    main()
