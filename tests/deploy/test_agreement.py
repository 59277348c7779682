"""Do the files in deploy/ agree: with each other, with the scenario, and with what foreserve understands?"""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
import yaml
from grpc_health.v1 import health_pb2, health_pb2_grpc

from serving.api.grpc.guard import PUBLIC
from serving.cli.arguments.scenario import scenario_of
from serving.cli.main import make_parser
from serving.cluster.placement import HOSTING, NODES
from serving.device.fleet_limits import load_fleet
from serving.process.process_priority import URGENT_NICENESS
from serving.process.server_process import ServerProcess
from serving.scenario.scenario import Scenario
from serving.scenario.scenario_file import load_scenario
from tests.deploy.files import (
    DEPLOY,
    KUBERNETES,
    ROOT,
    UNIT,
    complaints,
    compose,
    container,
    dockerfile,
    ignored,
    instruction,
    manifest,
    manifests,
    pods,
    read_yaml,
    schema_of,
    unit,
)

SCENARIO = DEPLOY / "scenarios" / "onprem.toml"
# In a tag, where a flavour is asked for.
FLAVOURED = "${FLAVOUR:+-$FLAVOUR}"
MOUNTED = "/etc/foreserve/onprem.toml"


def edge_command() -> list[str]:
    """What foreserve is called with in Kubernetes: after `exec`, in the shell that has first joined Ray."""
    (script,) = container(pods()["edge"])["args"]
    return shlex.split(script.partition("exec ")[2])


def commands() -> dict[str, list[str]]:
    """All that these files call foreserve with."""
    entry = instruction("ENTRYPOINT").words
    return {
        "image": entry[entry.index("foreserve") :] + instruction("CMD").words,
        "compose": entry[entry.index("foreserve") :] + compose()["services"]["foreserve"]["command"],
        "kubernetes": edge_command(),
        "systemd": shlex.split(unit()["Service"]["ExecStart"]),
    }


@pytest.mark.parametrize("where", ["image", "compose", "kubernetes", "systemd"])
def test_what_they_call_foreserve_with_is_understood(where: str) -> None:
    program, *arguments = commands()[where]
    assert Path(program).name == "foreserve" and arguments[0] == "serve"
    args = make_parser().parse_args(arguments)
    assert args.scenario in (None, Path(MOUNTED))
    if args.scenario:
        args.scenario = SCENARIO
    scenario = scenario_of(args)
    # In a container loopback is nobody's, and on a machine everybody else is not meant.
    assert scenario.host == ("127.0.0.1" if where == "systemd" else "0.0.0.0")


def test_the_scenarios_are_ones_that_can_be() -> None:
    scenarios = sorted(SCENARIO.parent.glob("*.toml"))
    assert SCENARIO in scenarios
    for path in scenarios:
        scenario = load_scenario(path)
        assert len(load_fleet(scenario)) == 2 and scenario.default_slo and len(scenario.slo_classes) == 3


def ports(scenario: Scenario) -> set[int]:
    return {scenario.http_port, scenario.grpc_port}


def test_all_ports_are_the_scenarios() -> None:
    scenario = load_scenario(SCENARIO)
    assert ports(scenario) == ports(Scenario()) == {int(word) for word in instruction("EXPOSE").words}
    published = [text.split(":") for text in compose()["services"]["foreserve"]["ports"]]
    assert {int(inside) for _, _, inside in published} == ports(scenario)
    http, grpc = container(pods()["edge"])["ports"]
    assert (http["containerPort"], grpc["containerPort"]) == (scenario.http_port, scenario.grpc_port)
    service = {port["targetPort"]: port["port"] for port in manifest("Service")["spec"]["ports"]}
    assert service == {http["name"]: scenario.http_port, grpc["name"]: scenario.grpc_port}
    targets = read_yaml(DEPLOY / "prometheus" / "prometheus.yml")["scrape_configs"][0]["static_configs"][0]["targets"]
    assert targets == [f"foreserve:{scenario.http_port}"]
    policy = manifest("NetworkPolicy", "foreserve-edge")["spec"]["ingress"][0]["ports"]
    assert {port["port"] for port in policy} == {http["name"], grpc["name"]}
    assert manifest("ServiceMonitor")["spec"]["endpoints"][0]["port"] in {
        port["name"] for port in manifest("Service")["spec"]["ports"]
    }


def test_everything_is_published_on_loopback_only() -> None:
    published = [port for service in compose()["services"].values() for port in service.get("ports", [])]
    assert len(published) == 4
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_what_compose_mounts_is_there() -> None:
    sources = [
        volume.split(":")[0] for service in compose()["services"].values() for volume in service.get("volumes", [])
    ]
    named = [source for source in sources if not source.startswith(".")]
    assert set(named) == set(compose()["volumes"])
    assert all((DEPLOY / source).exists() for source in sources if source not in named)
    assert f"./scenarios/onprem.toml:{MOUNTED}:ro" in compose()["services"]["foreserve"]["volumes"]
    build = compose()["services"]["foreserve"]["build"]
    assert (DEPLOY / build["context"]).resolve() == ROOT and (ROOT / build["dockerfile"]).is_file()
    assert build["args"].keys() <= {each.rest.split("=")[0] for each in dockerfile() if each.name == "ARG"}


def test_what_depends_on_health_has_a_check_of_it() -> None:
    services = compose()["services"]
    for service in services.values():
        for name, dependency in service.get("depends_on", {}).items():
            assert dependency["condition"] != "service_healthy" or "healthcheck" in services[name]
    assert instruction("HEALTHCHECK").rest.startswith("CMD ")


def test_images_are_pinned() -> None:
    version = make_version()
    for image in (service["image"] for service in compose()["services"].values()):
        name, _, tag = image.removesuffix(FLAVOURED).partition(":")
        assert tag.lstrip("v").replace(".", "").isdigit(), image
        assert name != "foreserve" or tag == version
    (override,) = read_yaml(KUBERNETES / "kustomization.yaml")["images"]
    assert override == {"name": "foreserve", "newTag": version}
    assert {container(pod)["image"] for pod in pods().values()} == {"foreserve"}
    # What compose builds is what its tag says.
    ours = compose()["services"]["foreserve"]
    assert ours["image"].endswith(FLAVOURED) and ours["build"]["args"] == {"FLAVOUR": "${FLAVOUR:-cpu}"}


def make_version() -> str:
    lines = (ROOT / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    return next(line.split('"')[1] for line in lines if line.startswith("version = "))


def test_prometheus_and_grafana_load_whatever_is_generated() -> None:
    volumes = dict(
        volume.split(":")[1::-1]
        for name in ("prometheus", "grafana")
        for volume in compose()["services"][name]["volumes"]
    )
    assert volumes["/etc/prometheus"] == "./prometheus"
    prometheus = read_yaml(DEPLOY / "prometheus" / "prometheus.yml")
    assert prometheus["rule_files"] == ["rules/*.yml"] and (DEPLOY / "prometheus" / "rules").is_dir()
    provisioning = DEPLOY / volumes["/etc/grafana/provisioning"]
    (provider,) = read_yaml(provisioning / "dashboards" / "foreserve.yml")["providers"]
    assert volumes[provider["options"]["path"]] == "./grafana/dashboards"
    assert (DEPLOY / "grafana" / "dashboards").is_dir()
    (source,) = read_yaml(provisioning / "datasources" / "prometheus.yml")["datasources"]
    assert (source["uid"], source["type"], source["url"]) == ("prometheus", "prometheus", "http://prometheus:9090")
    # $__rate_interval is four times what the source says, so it must say how often Prometheus scrapes.
    assert source["jsonData"]["timeInterval"] == prometheus["global"]["scrape_interval"]


def probes() -> list[dict[str, Any]]:
    edge = container(pods()["edge"])
    return [edge[f"{kind}Probe"] for kind in ("startup", "readiness", "liveness")]


def test_probes_ask_what_is_there_and_needs_no_key() -> None:
    startup, readiness, liveness = probes()
    assert [probe["httpGet"]["path"] for probe in (startup, readiness)] == ["/health", "/ready"]
    assert {probe["httpGet"]["port"] for probe in (startup, readiness)} == {"http"}
    assert liveness["grpc"]["port"] == load_scenario(SCENARIO).grpc_port
    assert "grpc.health.v1.Health" in PUBLIC
    assert manifest("ServiceMonitor")["spec"]["endpoints"][0]["path"] == "/metrics"
    assert "127.0.0.1:8000/health" in instruction("HEALTHCHECK").rest
    for name in ("head", "hosts"):
        ray = container(pods()[name])
        numbers = {port["containerPort"] for port in ray["ports"]}
        assert all(ray[f"{kind}Probe"]["tcpSocket"]["port"] in numbers for kind in ("startup", "readiness", "liveness"))


def test_ray_is_the_same_everywhere_and_its_nodes_offer_what_the_edge_waits_for() -> None:
    cluster = manifest("RayCluster")
    pinned = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert f"ray=={cluster['spec']['rayVersion']}" in pinned
    (group,) = cluster["spec"]["workerGroupSpecs"]
    params = group["rayStartParams"]
    # KubeRay puts it on a shell's command line, quotes and all.
    (offered,) = shlex.split(params["resources"])
    assert json.loads(offered) == {HOSTING: 1}
    assert HOSTING not in str(cluster["spec"]["headGroupSpec"]["rayStartParams"])
    environment = {each["name"]: each for each in container(pods()["edge"])["env"]}
    assert int(environment[NODES]["value"]) == group["minReplicas"] <= group["replicas"]
    gcs = container(pods()["head"])["ports"][0]["containerPort"]
    name = cluster["metadata"]["name"]
    assert environment["RAY_ADDRESS"]["value"] == f"{name}-head-svc:{gcs}"
    assert environment["RAY_AUTH_MODE"]["value"] == cluster["spec"]["authOptions"]["mode"]
    assert environment["RAY_AUTH_TOKEN"]["valueFrom"]["secretKeyRef"]["name"] == name
    assert int(params["node-manager-port"]) == container(pods()["hosts"])["ports"][0]["containerPort"]


def test_selectors_find_pods() -> None:
    labels = [pod["metadata"]["labels"] for pod in pods().values()]

    def found(selector: dict[str, str]) -> int:
        return sum(selector.items() <= each.items() for each in labels)

    assert found(manifest("Deployment")["spec"]["selector"]["matchLabels"]) == 1
    assert found(manifest("Service")["spec"]["selector"]) == 1
    budgets = [each for each in manifests() if each["kind"] == "PodDisruptionBudget"]
    assert [found(budget["spec"]["selector"]["matchLabels"]) for budget in budgets] == [1, 1, 1]
    # Of a RayCluster, which has no scale subresource, only a number that must stay is understood.
    (group,) = manifest("RayCluster")["spec"]["workerGroupSpecs"]
    stay = [budget["spec"].get("minAvailable") for budget in budgets]
    assert stay == [1, 1, group["replicas"] - 1]
    assert found(manifest("NetworkPolicy")["spec"]["podSelector"]["matchLabels"]) == 3
    assert found(manifest("NetworkPolicy")["spec"]["ingress"][0]["from"][0]["podSelector"]["matchLabels"]) == 3
    monitor = manifest("ServiceMonitor")["spec"]["selector"]["matchLabels"]
    assert monitor.items() <= manifest("Service")["metadata"]["labels"].items()


def waiting_series() -> str:
    """What prometheus-adapter looks for."""
    (rule,) = read_yaml(KUBERNETES / "prometheus-adapter-values.yaml")["rules"]["custom"]
    return str(rule["seriesQuery"].split('"')[1])


def test_a_server_answers_the_probes_and_has_the_hpas_metric(emulator: ServerProcess) -> None:
    startup, readiness, _ = probes()
    for path in (startup["httpGet"]["path"], readiness["httpGet"]["path"]):
        assert httpx.get(emulator.http_url + path).status_code == 200
    metrics = httpx.get(emulator.http_url + manifest("ServiceMonitor")["spec"]["endpoints"][0]["path"]).text
    assert f"\n{waiting_series()}{{" in metrics
    with grpc.insecure_channel(emulator.grpc_url.removeprefix("grpc://")) as channel:
        answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=10)
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_the_hpa_scales_the_edge_on_a_metric_that_there_is() -> None:
    hpa = manifest("HorizontalPodAutoscaler")["spec"]
    target = manifest("Deployment")
    assert hpa["scaleTargetRef"] == {
        "apiVersion": target["apiVersion"],
        "kind": target["kind"],
        "name": target["metadata"]["name"],
    }
    assert "replicas" not in target["spec"]
    (rule,) = read_yaml(KUBERNETES / "prometheus-adapter-values.yaml")["rules"]["custom"]
    assert hpa["metrics"][0]["pods"]["metric"]["name"] == rule["name"]["as"]
    assert rule["name"]["matches"] == f"^{waiting_series()}$"


def test_no_pod_may_more_than_it_needs() -> None:
    assert manifest("Namespace")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    for pod in pods().values():
        user, mine = pod["spec"]["securityContext"], container(pod)["securityContext"]
        assert user["runAsNonRoot"] and user["seccompProfile"] == {"type": "RuntimeDefault"}
        assert f"{user['runAsUser']}:{user['runAsGroup']}" == instruction("USER").rest
        assert mine["readOnlyRootFilesystem"] and not mine["allowPrivilegeEscalation"]
        assert mine["capabilities"] == {"drop": ["ALL"]}
        mounts = {mount["name"]: mount["mountPath"] for mount in container(pod)["volumeMounts"]}
        assert {"/tmp", "/dev/shm", "/home/foreserve"} <= set(mounts.values())
        assert mounts.keys() == {volume["name"] for volume in pod["spec"]["volumes"]}


def test_what_is_compiled_in_a_container_can_be_loaded_there() -> None:
    mounts = dict(each.split(":", 1) for each in compose()["services"]["foreserve"]["tmpfs"])
    environment = dict(word.split("=", 1) for each in dockerfile() if each.name == "ENV" for word in each.words)
    assert "exec" in mounts[environment["HOME"]].split(",")


@pytest.mark.skipif(not shutil.which("kubectl"), reason="there is no kubectl to build it")
def test_kustomize_builds_it_with_the_scenario_in() -> None:
    built = subprocess.run(["kubectl", "kustomize", str(KUBERNETES)], capture_output=True, text=True, timeout=60)
    assert built.returncode == 0, built.stderr
    objects = list(yaml.safe_load_all(built.stdout))
    assert [found for each in objects for found in complaints(each, schema_of(each["kind"]))] == []
    (config,) = [each for each in objects if each["kind"] == "ConfigMap"]
    assert config["data"] == {SCENARIO.name: SCENARIO.read_text(encoding="utf-8")}
    assert {each["metadata"].get("namespace", each["metadata"]["name"]) for each in objects} == {"foreserve"}
    (edge,) = [each for each in objects if each["kind"] == "Deployment"]
    volumes = edge["spec"]["template"]["spec"]["volumes"]
    assert {"name": config["metadata"]["name"]} in [volume.get("configMap") for volume in volumes]
    assert built.stdout.count(f"image: foreserve:{make_version()}") == 3


@pytest.mark.skipif(not shutil.which("kubectl"), reason="there is no kubectl to build it")
def test_the_readmes_overlay_gives_each_host_a_gpu(tmp_path: Path) -> None:
    text = (DEPLOY / "README.md").read_text(encoding="utf-8")
    (overlay,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    (tmp_path / "kustomization.yaml").write_text(overlay, encoding="utf-8")
    for part in ("kubernetes", "scenarios"):
        shutil.copytree(DEPLOY / part, tmp_path / "foreserve/deploy" / part)
    built = subprocess.run(["kubectl", "kustomize", str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert built.returncode == 0, built.stderr
    (cluster,) = [each for each in yaml.safe_load_all(built.stdout) if each["kind"] == "RayCluster"]
    assert complaints(cluster, schema_of("RayCluster")) == []
    (host,) = cluster["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"]
    assert host["resources"]["limits"]["nvidia.com/gpu"] == 1 and host["image"] == f"foreserve:{make_version()}-gpu"


def test_the_kustomizations_name_every_manifest() -> None:
    others = {"kustomization.yaml", "prometheus-adapter-values.yaml"}
    names = set(read_yaml(KUBERNETES / "kustomization.yaml")["resources"])
    assert names == {path.name for path in KUBERNETES.glob("*.yaml")} - others | {"../scenarios"}
    (generator,) = read_yaml(SCENARIO.parent / "kustomization.yaml")["configMapGenerator"]
    assert generator["files"] == [SCENARIO.name]
    assert container(pods()["edge"])["volumeMounts"][0]["mountPath"] == str(Path(MOUNTED).parent)


def test_the_readmes_command_makes_objects_of_all_rules() -> None:
    text = (DEPLOY / "README.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^  (for rules in .*?) \| kubectl apply -f -$", text, re.DOTALL | re.MULTILINE)
    made = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=ROOT, check=True)
    objects = [each for each in yaml.safe_load_all(made.stdout) if each]
    assert {each["kind"] for each in objects} == {"PrometheusRule"}
    rules = sorted((DEPLOY / "prometheus/rules").glob("*.yml"), reverse=True)
    assert [each["spec"] for each in objects] == [read_yaml(path) for path in rules]
    assert {each["metadata"]["namespace"] for each in objects} == {manifest("Namespace")["metadata"]["name"]}


def tracked() -> list[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return listed.stdout.splitlines()


def test_what_the_image_copies_is_there_and_in_the_context() -> None:
    copies = [each for each in dockerfile() if each.name == "COPY" and not each.flags]
    assert len(copies) > 4
    for copy in copies:
        for source in copy.words[:-1]:
            inside = [path for path in tracked() if path == source or path.startswith(f"{source}/")]
            assert inside, source
            assert not [path for path in inside if ignored(path)], source


@pytest.mark.parametrize("path", ["tests/conftest.py", ".git/config", ".venv/bin/python", "tools/protos.py", "x.toml"])
def test_nothing_else_is_in_the_context(path: str) -> None:
    assert ignored(path)
    assert ignored("serving/api/__pycache__/wire.pyc") and not ignored("serving/api/grpc/guard.py")


def test_the_image_serves_as_nobody_and_ends_on_sigterm() -> None:
    assert instruction("USER").words == ["10001:10001"]
    # In the form of JSON: a shell between would keep SIGTERM to itself.
    assert instruction("ENTRYPOINT").rest.startswith("[") and instruction("CMD").rest.startswith("[")
    assert instruction("ENTRYPOINT").words[0] == "tini"
    last = max(each.stage for each in dockerfile())
    assert [each.stage for each in dockerfile() if each.name in ("USER", "HEALTHCHECK", "EXPOSE")] == [last] * 3


def test_the_unit_ends_and_hardens_what_it_starts() -> None:
    service = unit()["Service"]
    assert Path(service["ExecStart"].split()[0]) == Path("/opt/foreserve/.venv/bin/foreserve")
    assert service["KillMode"] == "mixed" and int(service["TimeoutStopSec"]) > 30
    assert service["Restart"] == "on-failure" and service["SuccessExitStatus"] == "143"
    assert int(service["LimitNICE"]) == URGENT_NICENESS and int(service["LimitRTPRIO"]) == 1
    assert compose()["services"]["foreserve"]["ulimits"] == {"rtprio": 1, "nice": 20 - URGENT_NICENESS}
    assert "RestrictRealtime" not in service and service["DynamicUser"] == "yes"
    environment = dict(word.split("=") for word in service["Environment"].split())
    # Where it may write: what it compiles would be lost otherwise.
    state = f"/var/lib/{service['StateDirectory']}"
    assert environment["HOME"] == state and environment["PYTHONPYCACHEPREFIX"].startswith(f"{state}/")


def drop_in() -> str:
    """What the unit's head proposes to open it."""
    lines = re.findall(r"^#   (.*)$", UNIT.read_text(encoding="utf-8"), re.MULTILINE)
    return "\n".join(lines) + "\n"


def test_the_drop_in_is_understood() -> None:
    line = drop_in().splitlines()[-1].removeprefix("ExecStart=")
    assert line.startswith(unit()["Service"]["ExecStart"])
    args = make_parser().parse_args(shlex.split(line)[1:])
    assert (args.host, args.api_key_file, args.admin_key_file) == ("0.0.0.0", "%d/keys", "%d/admin")


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze to ask")
def test_systemd_has_nothing_against_the_unit(tmp_path: Path) -> None:
    here = tmp_path / UNIT.name
    text = UNIT.read_text(encoding="utf-8")
    here.write_text(text.replace("/opt/foreserve/.venv/bin/foreserve", sys.executable), encoding="utf-8")
    assert analyze(here) == ""
    more = tmp_path / f"{UNIT.name}.d/open.conf"
    more.parent.mkdir()
    more.write_text(drop_in().replace("/opt/foreserve/.venv/bin/foreserve", sys.executable), encoding="utf-8")
    assert analyze(here) == ""
    more.write_text(more.read_text(encoding="utf-8").replace("ExecStart=\n", ""), encoding="utf-8")
    assert "more than one ExecStart=" in analyze(here)
    here.write_text(here.read_text(encoding="utf-8").replace("KillMode=mixed", "KilMode=mixed"), encoding="utf-8")
    assert "KilMode" in analyze(here)


def analyze(path: Path) -> str:
    done = subprocess.run(["systemd-analyze", "verify", str(path)], capture_output=True, text=True, timeout=60)
    return "\n".join(line for line in (done.stdout + done.stderr).splitlines() if path.name in line)
