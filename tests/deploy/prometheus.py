"""A real Prometheus for the tests, and what its queries name."""

import contextlib
import math
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy/prometheus/rules"
START_S = 30.0
WORDS = {
    *("by", "on", "ignoring", "group_left", "group_right", "and", "or", "unless", "offset", "bool", "without"),
    *(
        "sum",
        "rate",
        "increase",
        "avg",
        "min",
        "max",
        "count",
        "histogram_quantile",
        "max_over_time",
        "avg_over_time",
        "vector",
    ),
    *("scalar", "clamp_max", "label_values"),
}


def program(name: str) -> str:
    """Where `prometheus` or `promtool` is. Without it a test is skipped; but with apt there is no reason for that."""
    found = shutil.which(name, path=Path(sys.executable).parent) or shutil.which(name)
    if found is None:
        reason = f"There is no {name} here. `make prometheus` gets Debian's; or put it into the PATH."
        (pytest.fail if shutil.which("apt-get") else pytest.skip)(reason)
    return str(found)


class Prometheus:
    """One that runs."""

    def __init__(self, port: int) -> None:
        self._http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30, trust_env=False)

    def get(self, path: str, **params: Any) -> Any:
        """What its API answers. AssertionError if it refuses."""
        answer = self._http.get(f"/api/v1/{path}", params=params)
        assert answer.status_code == 200, f"{params}: {answer.text}"
        return answer.json()["data"]

    def values(self, expr: str, since: float, step_s: float = 1.0) -> dict[str, list[float]]:
        """Series by their labels, with the values that are numbers; series without any are left out."""
        found = self.get("query_range", query=expr, start=since, end=time.time(), step=step_s)["result"]
        series = {str(each["metric"]): [float(value) for _, value in each["values"]] for each in found}
        numbers = {name: [value for value in values if not math.isnan(value)] for name, values in series.items()}
        return {name: values for name, values in numbers.items() if values}

    def is_up(self) -> bool:
        """Whether it has read any target."""
        with contextlib.suppress(httpx.HTTPError, AssertionError):
            return any(float(each["value"][1]) for each in self.get("query", query="up")["result"])
        return False


@contextlib.contextmanager
def prometheus(folder: Path, discovery: Path) -> Iterator[Prometheus]:
    """One that reads every second what a discovery file names, with our rules."""
    port = free_port()
    config = folder / "prometheus.yml"
    config.write_text(
        "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
        f"rule_files: ['{RULES}/*.yml']\n"
        "scrape_configs:\n"
        f"  - {{job_name: found, file_sd_configs: [{{files: ['{discovery}']}}]}}\n"
    )
    command = [
        *(program("prometheus"), f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}"),
        *(f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"),
    ]
    log = (folder / "prometheus.log").open("w")
    process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        found, deadline = Prometheus(port), time.monotonic() + START_S
        while not found.is_up():
            assert process.poll() is None and time.monotonic() < deadline, (folder / "prometheus.log").read_text()
            time.sleep(0.2)
        yield found
    finally:
        process.terminate()
        process.wait(30)
        log.close()


def free_port() -> int:
    """One that nobody has at the moment."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def metrics_in(expr: str) -> set[str]:
    """The metrics that a query names: what is left of it without strings, matchers, labels, windows and words."""
    bare = re.sub(r'"[^"]*"', "", expr)
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]|offset \S+", " ", bare)
    bare = re.sub(r"\b(by|on|ignoring|group_left|group_right|without)\s*\([^)]*\)", " ", bare)
    if bare.startswith("label_values("):
        bare = bare.partition(",")[0]
    return set(re.findall(r"[a-zA-Z_:][a-zA-Z0-9_:]*", bare)) - WORDS
