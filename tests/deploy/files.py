"""What lies in deploy/, read: manifests, the Dockerfile, the unit, and the schemas that they are held against."""

import configparser
import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
SCHEMAS = Path(__file__).parent / "schemas"
KUBERNETES = DEPLOY / "kubernetes"
DOCKERFILE = DEPLOY / "docker" / "Dockerfile"
UNIT = DEPLOY / "systemd" / "foreserve.service"
CUSTOM = {"RayCluster": "raycluster.json", "ServiceMonitor": "servicemonitor.json"}


def read_yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def compose() -> dict[str, Any]:
    return dict(read_yaml(DEPLOY / "docker-compose.yml"))


def manifests() -> list[dict[str, Any]]:
    """What the kustomization names, in its order, but for other kustomizations."""
    names = read_yaml(KUBERNETES / "kustomization.yaml")["resources"]
    files = [KUBERNETES / name for name in names if (KUBERNETES / name).is_file()]
    return [manifest for file in files for manifest in yaml.safe_load_all(file.read_text(encoding="utf-8"))]


def manifest(kind: str, name: str = "foreserve") -> dict[str, Any]:
    return next(each for each in manifests() if (each["kind"], each["metadata"]["name"]) == (kind, name))


def pods() -> dict[str, dict[str, Any]]:
    """The pod templates: of the edge, of Ray's head, and of its hosts."""
    ray = manifest("RayCluster")["spec"]
    return {
        "edge": manifest("Deployment")["spec"]["template"],
        "head": ray["headGroupSpec"]["template"],
        **{group["groupName"]: group["template"] for group in ray["workerGroupSpecs"]},
    }


def container(pod: dict[str, Any]) -> dict[str, Any]:
    (only,) = pod["spec"]["containers"]
    return dict(only)


def load_schema(name: str) -> dict[str, Any]:
    return dict(json.loads((SCHEMAS / name).read_text(encoding="utf-8")))


def schema_of(kind: str) -> dict[str, Any]:
    """The schema of a kind of Kubernetes object."""
    if kind in CUSTOM:
        return load_schema(CUSTOM[kind]) | {"$id": CUSTOM[kind]}
    return {"$ref": "kubernetes.json" + load_schema("kubernetes.json")["kinds"][kind]["$ref"]}


def complaints(instance: Any, schema: dict[str, Any]) -> list[str]:
    """What a schema has against an instance; each begins with the place."""
    kubernetes = Resource.from_contents(load_schema("kubernetes.json"), default_specification=DRAFT202012)
    registry: Registry[Any] = Registry().with_resource("kubernetes.json", kubernetes)
    errors = Draft202012Validator(schema, registry=registry).iter_errors(instance)
    return [f"{error.json_path}: {error.message}" for error in errors]


@dataclass(frozen=True)
class Instruction:
    """An instruction of a Dockerfile: its flags (`--from=build`) apart from the rest, and the stage that it is in."""

    name: str
    flags: tuple[str, ...]
    rest: str
    stage: int

    @property
    def words(self) -> list[str]:
        """The rest, in the form of JSON or of a shell."""
        return list(json.loads(self.rest)) if self.rest.startswith("[") else shlex.split(self.rest)


def dockerfile() -> list[Instruction]:
    """The instructions, without comments, each with its continued lines joined."""
    lines = [line for line in DOCKERFILE.read_text(encoding="utf-8").splitlines() if not line.lstrip().startswith("#")]
    found: list[Instruction] = []
    stage = -1
    for line in filter(None, re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines()):
        name, _, rest = line.strip().partition(" ")
        flags = []
        while rest.startswith("--"):
            flag, _, rest = rest.partition(" ")
            flags.append(flag)
            rest = rest.lstrip()
        stage += name == "FROM"
        found.append(Instruction(name, tuple(flags), rest, stage))
    return found


def instruction(name: str) -> Instruction:
    """The last one of a name: for ENTRYPOINT, CMD, USER and their like, the one that counts."""
    return [each for each in dockerfile() if each.name == name][-1]


def unit() -> configparser.ConfigParser:
    """The systemd unit; no key of it comes twice."""
    parser = configparser.ConfigParser(interpolation=None, delimiters=["="])
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(UNIT, encoding="utf-8")
    return parser


def ignored(path: str) -> bool:
    """Whether .dockerignore keeps a path out of the image's context: the last pattern that matches it decides."""
    out = False
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#") and matches(line.removeprefix("!"), path):
            out = not line.startswith("!")
    return out


def matches(pattern: str, path: str) -> bool:
    """As Docker does it: a pattern matches what it names, and all below that; `**` crosses folders."""
    regex = re.escape(pattern).replace(r"\*\*/", "(.*/)?").replace(r"\*", "[^/]*").replace(r"\?", "[^/]")
    return re.fullmatch(f"{regex}(/.*)?", path) is not None
