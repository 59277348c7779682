"""HTTP requests of all sorts: by hand (`nasty`), and by schemathesis on the server's own OpenAPI."""

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import httpx
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import Case
from schemathesis.core.errors import UnsupportedSchema

from serving.process.server_process import ServerProcess
from tests.soak.late_batches import LateBatches
from tests.soak.nasty import Request, request

HANG_S = 60.0
MOST_ROUNDS = 10
AT_ONCE = 8
# What does what it says, and would change the server under test.
LEFT_OUT = "/foreserve/|/scale_elastic_ep|/is_scaling_elastic_ep"


@dataclass(slots=True)
class Answers:
    """How often what was answered, and each request that should not have been answered so."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def take(self, status: str, is_failure: bool, what: Callable[[], str]) -> None:
        """One more."""
        self.counts[status] += 1
        if is_failure:
            self.failures.append(f"{status}: {what()}")


def by_hand(batches: LateBatches, answers: Answers, count: int, number: int) -> None:
    """So many requests of `nasty`, from a seed."""
    random = Random(number)
    with httpx.Client(timeout=HANG_S) as client:
        requests = (request(random) for _ in range(count))
        batches.send(requests, lambda each: _ask(client, batches.child, each, answers), AT_ONCE)


def _ask(client: httpx.Client, child: ServerProcess, each: Request, answers: Answers) -> None:
    try:
        answer = client.post(child.http_url + each.path, content=each.body, headers=each.headers)
        status, text = str(answer.status_code), answer.text
    except httpx.HTTPError as error:
        status, text = type(error).__name__, str(error)
    is_failure = not status.isdigit() or int(status) >= 500 or '"InternalServerError"' in text
    answers.take(status, is_failure, lambda: f"{each} -> {text[:300]}")


def of_schema(child: ServerProcess, count: int, number: int) -> list[Case]:
    """At least so many requests by schemathesis, from a seed and those after it: it drops what it has had before.

    They are thought of before any is sent: that takes half a second of processor each, and what it does to a server
    on the same machine is not what the requests do."""
    schema = schemathesis.openapi.from_url(f"{child.http_url}/openapi.json").exclude(path_regex=LEFT_OUT)
    operations = [each.ok() for each in schema.get_all_operations()]
    most, modes = count // (2 * len(operations)) + 1, list(schemathesis.GenerationMode)
    cases: list[Case] = []
    for round in range(MOST_ROUNDS):
        for operation in operations:
            for mode in modes:
                cases += _of(operation.as_strategy(generation_mode=mode), most, number + round)
        if len(cases) >= count:
            break
    return cases


def _of(strategy: Any, count: int, number: int) -> list[Case]:
    cases: list[Case] = []
    checks = list(HealthCheck)

    @seed(number)
    @settings(max_examples=count, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=checks)
    @given(case=strategy)
    def explore(case: Case) -> None:
        cases.append(case)

    # A route without parameters has no wrong ones, and there are schemas of which it can't think of any.
    with suppress(Unsatisfiable, UnsupportedSchema):
        explore()
    return cases


def by_schema(batches: LateBatches, answers: Answers, cases: Iterable[Case]) -> None:
    """Send them, one after the other."""
    batches.send(cases, lambda case: _send(batches.child, case, answers), 1)


def _send(child: ServerProcess, case: Case, answers: Answers) -> None:
    try:
        answer = case.call(base_url=child.http_url, timeout=HANG_S)
        status, text = str(answer.status_code), answer.text
    except OSError as error:
        status, text = type(error).__name__, str(error)
    is_failure = not status.isdigit() or int(status) >= 500
    answers.take(status, is_failure, partial(_told, case, text))


def _told(case: Case, text: str) -> str:
    return f"{case.as_curl_command()[:2000]} -> {text[:300]}"
