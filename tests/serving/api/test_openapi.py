"""Does the OpenAPI tell of each of our routes, with its answers, and are its answers those?"""

from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from prometheus_client import CollectorRegistry

from serving.api.guards.http_guard import HttpGuard
from serving.api.http_admin import admin_routes
from serving.api.http_health import health_routes
from serving.api.http_metrics import metrics_routes
from serving.api.http_status import status_routes
from serving.security.access import Access
from serving.telemetry.status_history import HistoryKeeper
from tests.serving.cli.test_top import busy_status


@pytest.fixture(scope="module")
def client() -> TestClient:
    app, history = FastAPI(), HistoryKeeper()
    history.add(busy_status())
    parts = SimpleNamespace(ready=False, live=True, parts=lambda: {"device 0": "silent"})
    app.include_router(health_routes(parts))  # type: ignore[arg-type]
    app.include_router(admin_routes(SimpleNamespace()))  # type: ignore[arg-type]
    app.include_router(status_routes(busy_status, history.after))
    app.include_router(metrics_routes(CollectorRegistry(), CollectorRegistry()))
    return TestClient(app)


@pytest.fixture(scope="module")
def told(client: TestClient) -> dict[str, dict[str, Any]]:
    """The answers to GET by path and status."""
    paths: dict[str, Any] = client.get("/openapi.json").json()["paths"]
    return {path: calls["get"]["responses"] for path, calls in paths.items() if "get" in calls}


def test_all_that_can_be_read_is_told_of_with_what_it_answers(told: dict[str, dict[str, Any]]) -> None:
    expected = {
        "/foreserve/v1/status": {"200", "401", "4XX"},
        "/foreserve/v1/history": {"200", "400", "401", "4XX"},
        "/metrics": {"200"},
        "/dcgm/metrics": {"200"},
    }
    assert {path: set(told[path]) for path in expected} == expected


@pytest.mark.parametrize("path", ["/foreserve/v1/status", "/foreserve/v1/history"])
def test_an_answer_has_the_form_that_is_told(client: TestClient, told: dict[str, dict[str, Any]], path: str) -> None:
    answer = client.get(path)
    schema = told[path][str(answer.status_code)]["content"]["application/json"]["schema"]
    assert "$ref" not in str(schema) and set(schema["required"]) == set(answer.json())
    jsonschema.validate(answer.json(), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({}, schema)


def test_metrics_are_text_and_say_that_some_can_be_asked_for(
    client: TestClient, told: dict[str, dict[str, Any]]
) -> None:
    calls = client.get("/openapi.json").json()["paths"]["/metrics"]
    assert [each["name"] for each in calls["get"]["parameters"]] == ["name[]"] and "head" not in calls
    assert set(told["/metrics"]["200"]["content"]) == {"text/plain"}
    # A server's guard takes probes that ask by HEAD.
    assert TestClient(HttpGuard(client.app, Access())).head("/metrics").status_code == 200


def test_each_call_has_a_name_of_its_own_and_says_what_it_does(client: TestClient) -> None:
    calls = [call for those in client.get("/openapi.json").json()["paths"].values() for call in those.values()]
    assert len({call["operationId"] for call in calls}) == len(calls) >= 10
    assert all(call.get("description") or call["summary"] for call in calls)
