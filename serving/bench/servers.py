"""Servers to measure, and a client that loads them: both on this machine."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import Any

import httpx
import numpy as np
import uvloop

from serving.edge.front_ends.rust_front_end import find_binary
from serving.edge.preflight import free_port
from serving.load.options import LoadOptions
from serving.load.report import Report
from serving.load.run import run_load
from serving.process.run_folder import run_folder
from serving.process.server_process import ServerProcess, server
from serving.scenario.scenario import RUST_FRONT_END
from serving.security.api_keys import NAMES
from serving.telemetry.step_log import read_step_log
from serving.types import StepRecord
from serving.usage_error import UsageError

HARDWARE, MODEL = "elmoe3d-8gb", "qwen3-30b-a3b"
NO_KEYS = dict.fromkeys(NAMES, "")
"""The environment of servers that ask for none, whatever keys the user's own asks for."""
INPUT_TOKENS = 8
FRONT_END_S = 30.0
START_SEED = 1


class Servers:
    """Servers of ELMoE-3D with one token model, which decode plainly unless they are told otherwise."""

    def __init__(self, token_model: str) -> None:
        self._token_model = token_model

    @contextmanager
    def recorded(self, devices: int, speed: float, *options: str) -> Iterator[tuple[ServerProcess, list[StepRecord]]]:
        """Run a server of `devices` devices, with more `options`; yield it, and a list for its steps.

        The list is empty until the context has ended.
        """
        records: list[StepRecord] = []
        with run_folder() as folder:
            log = folder / "steps.jsonl"
            with self.running(devices, speed, "--step-log", str(log), *options) as child:
                yield child, records
            records += read_step_log(log)

    @contextmanager
    def running(self, devices: int, speed: float, *options: str) -> Iterator[ServerProcess]:
        """Run a server of `devices` devices, with more `options`, and yield it."""
        with self.default(
            devices, "--hardware", HARDWARE, "--mode", "fixed-ar", "--speed", str(speed), *options
        ) as child:
            yield child

    @contextmanager
    def default(self, devices: int, *options: str) -> Iterator[ServerProcess]:
        """Run a server of `devices` devices in the default scenario but for `options`, and yield it."""
        count = ("--devices", str(devices))
        with server(*count, "--token-model", self._token_model, *options, quiet=True, environment=NO_KEYS) as child:
            yield child


def has_rust_front_end() -> bool:
    """Tell whether vLLM's front end in Rust is on this machine."""
    with suppress(UsageError):
        return find_binary().is_file()
    return False


def front_end_options() -> tuple[str, ...]:
    """Return the options of a server with vLLM's front end in Rust on a free port."""
    with free_port("127.0.0.1", 0, "front_end_port") as sock:
        port = str(sock.getsockname()[1])
    return ("--front-end", RUST_FRONT_END, "--front-end-port", port)


def front_end_url(options: tuple[str, ...]) -> str:
    """Return where the front end of such options is, once it is there. Raise RuntimeError if it does not come."""
    url, end_s = f"http://127.0.0.1:{options[-1]}", time.monotonic() + FRONT_END_S
    while time.monotonic() < end_s:
        with suppress(httpx.HTTPError):
            if httpx.get(f"{url}/health", trust_env=False).status_code == HTTPStatus.OK:
                return url
        time.sleep(0.1)
    raise RuntimeError(f"vllm-rs has not come up at {url} within {FRONT_END_S:g} s.")


def stand_still(url: str, devices: int, seconds: float, spread_s: float) -> None:
    """Have the devices of a server stand still for so many emulated seconds from now on; they go on one after the
    other, within `spread_s` more. Raise RuntimeError."""
    # At random, as a fleet's: with even distances many can be in step, as 125 ms are two and a half steps of 50 ms.
    starts_s = sorted(np.random.default_rng(START_SEED).uniform(0.0, spread_s, devices))
    for device, start_s in enumerate(starts_s):
        for_s = seconds + start_s
        fault = {"fault": f"stall: for={for_s}, device={device}"}
        answer = httpx.post(f"{url}/foreserve/v1/faults", json=fault, trust_env=False)
        if answer.status_code != HTTPStatus.OK:
            raise RuntimeError(f"device {device} cannot stand still: {answer.text}")


def load(
    url: str,
    streams: int,
    output_len: int,
    metrics_url: str | None = None,
    rate_per_s: float = float("inf"),
    **fields: Any,
) -> Report:
    """Send `streams` requests at once, or evenly at a rate per emulated second, with `fields` in their bodies.

    Raise RuntimeError unless all complete.
    """
    options = LoadOptions(
        url=url,
        rate_per_s=rate_per_s,
        arrivals="constant",
        num_requests=streams,
        input_len=INPUT_TOKENS,
        output_len=output_len,
        metrics_url=metrics_url,
        extra_body=fields,
    )
    report: Report = uvloop.run(run_load(options))
    if report.summary.completed != streams:
        raise RuntimeError(f"{report.summary.failed} of {streams} requests failed: {report.summary.errors}")
    return report
