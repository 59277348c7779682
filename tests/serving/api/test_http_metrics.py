"""Do scrapers get the metrics under their names, whatever format they ask for?"""

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.parser import text_string_to_metric_families

from serving.api.http_metrics import metrics_routes
from tests.serving.telemetry.metrics.samples import measured

# As Prometheus 2.42 and 3.5 ask, and others.
OLD = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,*/*;q=0.1"
NEW = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"


@pytest.fixture(scope="module")
def client() -> TestClient:
    registry, app = CollectorRegistry(), FastAPI()
    Counter("vllm:prompt_tokens", "Prompt tokens.", ["engine"], registry=registry).labels("0").inc(3)
    Counter("foreserve_faults", "Faults.", registry=registry)
    app.include_router(metrics_routes(registry, CollectorRegistry()))
    return TestClient(app)


@pytest.mark.parametrize("accept", [OLD, NEW, "text/plain", "*/*"])
def test_names_have_their_colons(client: TestClient, accept: str) -> None:
    answer = client.get("/metrics", headers={"accept": accept})
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = {sample.name for family in text_string_to_metric_families(answer.text) for sample in family.samples}
    assert {"vllm:prompt_tokens_total", "foreserve_faults_total"} <= found


def test_a_scraper_may_ask_for_some_of_them(client: TestClient) -> None:
    some = client.get("/metrics", params={"name[]": "foreserve_faults_total"}).text
    assert "foreserve_faults_total" in some and "vllm:" not in some
    assert client.get("/dcgm/metrics").text == ""


def test_a_scraper_may_ask_for_some_figures_of_the_devices_too() -> None:
    metrics, registry = measured()
    app = FastAPI()
    app.include_router(metrics_routes(registry, metrics.dcgm))
    some = TestClient(app).get("/dcgm/metrics", params={"name[]": "DCGM_FI_DEV_POWER_USAGE"}).text
    assert "DCGM_FI_DEV_POWER_USAGE{" in some and "DCGM_FI_DEV_GPU_UTIL" not in some


def test_of_series_of_the_emulation_a_scraper_may_pick_some_in_the_same_format() -> None:
    metrics, registry = measured(2)
    app = FastAPI()
    app.include_router(metrics_routes(registry, metrics.dcgm))
    answers = [
        TestClient(app).get("/metrics", params={"name[]": names}, headers={"accept": OLD})
        for names in (["vllm:prompt_tokens_total", "vllm:kv_cache_usage_perc"], [], ["vllm:prompt_tokens"], [""])
    ]
    assert {answer.headers["content-type"] for answer in answers} == {"text/plain; version=0.0.4; charset=utf-8"}
    some, whole, *nothing = [answer.text.splitlines(keepends=True) for answer in answers]
    wanted = ("vllm:prompt_tokens_total", "vllm:kv_cache_usage_perc")
    assert sorted(some) == sorted(
        line for line in whole if line.removeprefix("# HELP ").removeprefix("# TYPE ").startswith(wanted)
    )
    assert len(some) == 2 * (2 + 2) and nothing == [[], []]


def test_a_scraper_reads_all_that_has_happened() -> None:
    registry, app = CollectorRegistry(), FastAPI()
    steps = Counter("foreserve_steps", "Steps.", registry=registry)
    app.include_router(metrics_routes(registry, CollectorRegistry(), steps.inc))
    scraped = [TestClient(app).get("/metrics").text for _ in range(2)]
    assert "foreserve_steps_total 1.0" in scraped[0] and "foreserve_steps_total 2.0" in scraped[1]
