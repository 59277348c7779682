"""Are the manifests what their readers expect? Each schema also refuses what is wrong, or it would say nothing."""

import copy
import functools
import operator
from collections.abc import Callable
from typing import Any

import pytest

from tests.deploy.files import complaints, compose, load_schema, manifest, manifests, schema_of

KINDS = {
    *("ConfigMap", "Deployment", "HorizontalPodAutoscaler", "Namespace", "NetworkPolicy", "PodDisruptionBudget"),
    *("RayCluster", "Service", "ServiceMonitor"),
}


def test_compose_follows_its_specification() -> None:
    assert complaints(compose(), load_schema("compose-spec.json")) == []


@pytest.mark.parametrize(
    "spoil",
    [
        lambda services: services["foreserve"].update(port=["8000:8000"]),
        lambda services: services["foreserve"].update(ulimits={"rtprio": {"soft": 1}}),
        lambda services: services["grafana"]["depends_on"]["prometheus"].update(condition="healthy"),
        lambda services: services["prometheus"]["healthcheck"].update(every="10s"),
        lambda services: services["grafana"].update(depends_on={"prometheus": {}}),
    ],
)
def test_compose_with_a_mistake_is_refused(spoil: Callable[[dict[str, Any]], None]) -> None:
    wrong = copy.deepcopy(compose())
    spoil(wrong["services"])
    assert complaints(wrong, load_schema("compose-spec.json"))


def test_there_is_a_manifest_of_every_kind_and_a_schema_for_each() -> None:
    # The ConfigMap is generated from the scenario.
    assert {each["kind"] for each in manifests()} == KINDS - {"ConfigMap"}
    for each in manifests():
        assert complaints(each, schema_of(each["kind"])) == [], each["metadata"]["name"]


POD = ("spec", "template", "spec")
HEAD = ("spec", "headGroupSpec")
HOSTS = ("spec", "workerGroupSpecs", 0)


@pytest.mark.parametrize(
    ("kind", "path", "wrong"),
    [
        ("Deployment", POD, {"securityContxt": {}}),
        ("Deployment", (*POD, "containers", 0), {"livenessprobe": {}}),
        ("Deployment", (*POD, "containers", 0, "livenessProbe"), {"grcp": {"port": 1}}),
        ("Deployment", (*POD, "containers", 0, "resources"), {"requests": ["cpu"]}),
        ("Deployment", (*POD, "volumes", 0, "configMap"), {"nme": "scenario"}),
        ("Service", ("spec", "ports", 0), {"targetport": "http"}),
        ("HorizontalPodAutoscaler", ("spec",), {"minReplicas": "one"}),
        ("HorizontalPodAutoscaler", ("spec", "metrics", 0, "pods"), {"metrics": {}}),
        ("NetworkPolicy", ("spec",), {"ingres": []}),
        ("Namespace", ("metadata",), {"label": {}}),
        ("RayCluster", HEAD, {"rayStartParam": {}}),
        ("RayCluster", (*HEAD, "rayStartParams"), {"num-cpus": 0}),
        ("RayCluster", (*HEAD, "template", "spec", "containers", 0), {"prots": []}),
        ("RayCluster", HOSTS, {"replica": 2}),
        ("RayCluster", (*HOSTS, "template", "spec"), {"topologySpreadConstraint": []}),
        ("RayCluster", ("spec", "authOptions"), {"mode": "password"}),
        ("ServiceMonitor", ("spec", "endpoints", 0), {"intervall": "5s"}),
        ("ServiceMonitor", ("spec", "endpoints", 0), {"interval": "5 seconds"}),
        ("ServiceMonitor", ("spec", "selector"), {"matchLabel": {}}),
    ],
)
def test_a_manifest_with_a_mistake_is_refused_and_the_place_is_named(
    kind: str, path: tuple[str | int, ...], wrong: dict[str, Any]
) -> None:
    spoilt = copy.deepcopy(manifest(kind))
    functools.reduce(operator.getitem, path, spoilt).update(wrong)
    (found,) = complaints(spoilt, schema_of(kind))
    assert found.startswith("$" + "".join(f"[{key}]" if key == 0 else f".{key}" for key in path))


def test_a_budget_with_a_mistake_is_refused() -> None:
    spoilt = copy.deepcopy(manifest("PodDisruptionBudget", "foreserve-edge"))
    spoilt["spec"]["minAvailabel"] = 1
    assert complaints(spoilt, schema_of("PodDisruptionBudget"))
