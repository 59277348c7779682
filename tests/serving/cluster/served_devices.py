"""A server whose devices are lost, slowed down and mended: what a client asks of it, and what its steps tell."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import openai

from serving.process.server_process import ServerProcess
from serving.telemetry.step_log import read_step_log
from serving.types import StepRecord
from tests.patience import until
from tests.serving.cluster.test_recovery import REQUESTS, ask

# Of answers that are under way for seconds, while something happens to their devices.
LONG = 900


class Served:
    """Two devices on one LPDDR tier, with a log of their steps."""

    def __init__(self, child: ServerProcess, log: Path) -> None:
        self.child = child
        self.log = log
        self.http = httpx.Client(base_url=f"{child.http_url}/foreserve/v1", timeout=60)
        self.openai = openai.OpenAI(base_url=f"{child.http_url}/v1", api_key="none", max_retries=0)

    def devices(self) -> dict[int, dict[str, Any]]:
        return {device["index"]: device for device in self.http.get("/devices").json()["devices"]}

    def inject(self, fault: str) -> int:
        answer = self.http.post("/faults", json={"fault": fault})
        assert answer.status_code == 200, answer.text
        return int(answer.json()["id"])

    def clear(self, fault: int) -> None:
        assert self.http.delete(f"/faults/{fault}").status_code == 200

    def in_flight(self) -> int:
        return sum(int(device["requests_in_flight"]) for device in self.devices().values())

    def ask_all(self, meanwhile: Callable[[], None] | None = None, tokens: int = LONG) -> list[list[int]]:
        """The answers to all requests at once; `meanwhile` happens when all are under way."""
        arrived: list[list[int]] = [[] for _ in range(REQUESTS)]
        with ThreadPoolExecutor(REQUESTS) as pool:
            answers = [pool.submit(ask, self.openai, seed, arrived[seed], tokens) for seed in range(REQUESTS)]
            if meanwhile:
                until(lambda: all(arrived) and self.in_flight() == REQUESTS)
                meanwhile()
            return [answer.result(timeout=120) for answer in answers]

    def until(self, index: int, state: str) -> None:
        until(lambda: self.devices()[index]["state"] == state)

    def logged(self) -> int:
        """How many records the log has, once nothing is added to it any more."""
        counts = [-1]

        def at_rest() -> bool:
            time.sleep(0.5)
            counts.append(len(read_step_log(self.log)))
            return counts[-1] == counts[-2]

        until(at_rest)
        return counts[-1]

    def decode_steps(self, since: int, tokens: int) -> list[StepRecord]:
        """Steps of the log from record `since` on, once so many tokens have come of them."""
        steps: list[StepRecord] = []

        def all_told() -> bool:
            steps[:] = [step for step in read_step_log(self.log)[since:] if step.phase == "decode"]
            return sum(step.new_tokens for step in steps) >= tokens

        until(all_told)
        return steps
