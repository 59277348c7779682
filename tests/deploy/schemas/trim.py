"""Makes compose-spec.json and kubernetes.json from the wheels that carry them: only what is used, and no prose."""

import json
import sys
import zipfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
COMPOSE = "check_jsonschema/builtin_schemas/vendor/compose-spec.json"
KUBERNETES = "kubernetes_validate/kubernetes-json-schema/v1.35.0-local-strict/_definitions.json"
DEFINITIONS = "#/$defs/"
ROOTS = {
    "ConfigMap": "io.k8s.api.core.v1.ConfigMap",
    "Deployment": "io.k8s.api.apps.v1.Deployment",
    "HorizontalPodAutoscaler": "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler",
    "Namespace": "io.k8s.api.core.v1.Namespace",
    "NetworkPolicy": "io.k8s.api.networking.v1.NetworkPolicy",
    "PodDisruptionBudget": "io.k8s.api.policy.v1.PodDisruptionBudget",
    "PodTemplateSpec": "io.k8s.api.core.v1.PodTemplateSpec",
    "Service": "io.k8s.api.core.v1.Service",
}


def without_prose(schema: Any, names: bool = False) -> Any:
    """A schema without its descriptions; below `properties`, `description` is the name of one (`names`)."""
    if isinstance(schema, list):
        return [without_prose(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    dropped = () if names else ("description", "x-kubernetes-group-version-kind")
    naming = ("properties", "patternProperties", "$defs", "definitions")
    return {k: without_prose(v, not names and k in naming) for k, v in schema.items() if k not in dropped}


def references(schema: Any) -> set[str]:
    """The definitions that a schema names."""
    if isinstance(schema, list):
        return set().union(*map(references, schema)) if schema else set()
    if not isinstance(schema, dict):
        return set()
    own = {schema["$ref"].removeprefix(DEFINITIONS)} if isinstance(schema.get("$ref"), str) else set()
    return own.union(*map(references, schema.values()))


def reached(definitions: dict[str, Any], roots: list[str]) -> dict[str, Any]:
    """The definitions that the roots need."""
    found: dict[str, Any] = {}
    todo = list(roots)
    while todo:
        name = todo.pop()
        if name not in found:
            found[name] = definitions[name]
            todo += references(definitions[name])
    return dict(sorted(found.items()))


def write(name: str, schema: Any) -> None:
    """One definition a line, so that a difference can be read."""
    (HERE / name).write_text(json.dumps(schema, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def main() -> None:
    """The two wheels' paths are the arguments."""
    compose, kubernetes = (zipfile.ZipFile(path) for path in sys.argv[1:])
    write("compose-spec.json", without_prose(json.loads(compose.read(COMPOSE))))
    definitions = without_prose(json.loads(kubernetes.read(KUBERNETES))["$defs"], names=True)
    kinds = {kind: {"$ref": DEFINITIONS + name} for kind, name in ROOTS.items()}
    write("kubernetes.json", {"kinds": kinds, "$defs": reached(definitions, list(ROOTS.values()))})


if __name__ == "__main__":
    main()
