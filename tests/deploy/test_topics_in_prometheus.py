"""Are swaps of experts seen in metrics, and by Grafana's queries of a real Prometheus, while a live topic drifts?"""

import re
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import httpx
import pytest

from serving.process.server_process import server
from tests.deploy.prometheus import Prometheus, program, prometheus
from tests.deploy.test_dashboards import queries
from tests.deploy.test_real_prometheus import FILLED

pytestmark = [pytest.mark.timeout(300), pytest.mark.beside, pytest.mark.slow]

MODEL, EACH = "olmoe-1b-7b", 8
OPTIONS = ("--hardware", "stratum-s", "--model", MODEL, "--placement", "topic", "--max-model-len", "1024")
# What is asked about drifts from law to programming.
DRIFT = (("legal",) * EACH, ("cs", "legal") * (EACH // 2), ("cs",) * EACH)
SHOWN = ("Experts swapped", "Time spent swapping", "Expert hits")


class Drifted(NamedTuple):
    """A Prometheus that has seen the drift from `began` on, and how many swaps each part of it brought."""

    prometheus: Prometheus
    began: float
    swaps: list[float]
    joules: float


@pytest.fixture(scope="module")
def drifted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drifted]:
    program("prometheus")  # Before anything is started.
    folder = tmp_path_factory.mktemp("prometheus")
    discovery = folder / "foreserve.json"
    with server(*OPTIONS, "--discovery-file", str(discovery), quiet=True) as child:
        client = httpx.Client(base_url=child.http_url, timeout=60, trust_env=False)

        def total(metric: str) -> float:
            lines = re.findall(rf"^{metric}{{.*}} (\S+)$", client.get("/metrics").text, re.MULTILINE)
            return sum(map(float, lines))

        with prometheus(folder, discovery) as found:
            began, counts = time.time(), [0.0]
            for part in DRIFT:
                for topic in part:
                    body = {"model": MODEL, "prompt": "word", "max_tokens": 8, "ignore_eos": True, "topic": topic}
                    assert client.post("/v1/completions", json=body).status_code == 200
                    time.sleep(0.2)
                counts.append(total("foreserve_expert_swaps_total"))
            time.sleep(3.0)  # until they are scraped
            swaps = [after - before for before, after in pairwise(counts)]
            yield Drifted(found, began, swaps, total("foreserve_expert_swap_joules_total"))


def test_each_batch_of_another_topic_swaps_and_no_other(drifted: Drifted) -> None:
    assert drifted.swaps == [1, EACH, 1]
    assert drifted.joules > 0.05 * (EACH + 1)  # some 0.1 J each


@pytest.mark.parametrize("title", SHOWN)
def test_grafana_s_panels_show_it(drifted: Drifted, title: str) -> None:
    asked = [expr for where, expr in queries("accelerator") if where.endswith(title)]
    assert asked
    for expr in asked:
        for variable, value in FILLED.items():
            expr = expr.replace(variable, value)
        values = drifted.prometheus.values(expr, drifted.began)
        assert any(max(series) > 0 for series in values.values()), expr
