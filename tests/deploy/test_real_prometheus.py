"""Does a real Prometheus, reading a real emulator under load, answer every query of dashboards and alerts?"""

import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import httpx
import pytest

from serving.process.server_process import server
from serving.telemetry.step_log import read_step_log
from serving.topics.names import NAMES
from tests.deploy.prometheus import Prometheus, metrics_in, program, prometheus
from tests.deploy.test_dashboards import panels, queries, rules, vllm_queries
from tools.dashboards.__main__ import DASHBOARDS

# Slow, as two bursts of long prompts are: that queries name metrics there are, test_dashboards checks.
pytestmark = [pytest.mark.timeout(300), pytest.mark.beside, pytest.mark.slow]

MODEL, SPEED = "glm-4.7-flash", 3.0
OPTIONS = (
    *("--devices", "2", "--hardware", "elmoe3d-4gb", "--model", MODEL, "--token-model", "foreserve-moe"),
    *("--mode", "tau", "--tau", "4", "--placement", "topic", "--kv-tier", "hb", "--preemption", "spill"),
    *("--max-model-len", "1024", "--max-num-seqs", "10", "--speed", str(SPEED)),
    *("--slo-class", "strict: ttft_ms=1", "--slo-class", "tight: tpot_ms=0.1", "--slo-class", "loose: ttft_ms=60000"),
)
# For the KV of so many tokens 60 % of this hardware's HB has room. A burst of this load needs more, though every second
# prompt is that before it: sequences must go to LPDDR.
KV_LEFT_TOKENS = 2228
WORDS, TOKENS = 450, 60
# Grafana's variables, as it fills them in.
FILLED = {
    **{"$job": ".*", "$instance": ".*", "$model_name": ".*", "$device": ".*"},
    **{"$__rate_interval": "8s", "$__interval": "2s", "$__range": "60s"},
}
# What the load makes happen, each as a query that is above 0 then.
HAPPENED = {
    "a rejection": 'increase(foreserve_rejections_total{slo_class="strict", reason="ttft"}[10s])',
    "a missed target": 'increase(foreserve_slo_misses_total{slo_class="tight", target="tpot"}[10s])',
    "goodput": 'sum(rate(foreserve_slo_requests_total{met="true"}[10s]))',
    "a queue": "sum(foreserve_queue_requests)",
    "an old waiter": "max(foreserve_queue_oldest_seconds)",
    "speculation": 'max(foreserve_mode{mode="sd"})',
    "plain decoding": 'max(foreserve_mode{mode="ar"})',
    "a switch": "sum(foreserve_mode_switches_total)",
    "keys and values in LPDDR": 'sum(foreserve_kv_moved_tokens_total{direction="spilled"})',
    "a throttled tier": 'sum(foreserve_fault_active{kind="lpddr"})',
    "a lost device": 'foreserve_device{state="lost"}',
    "an alert about it": 'ALERTS{alertname="ForeserveDeviceLost", alertstate="pending"}',
    "hits of prefixes": "sum(vllm:prefix_cache_hits_total)",
}
# A step is counted when it ends, so a window may have one that began before it.
SLACK = 0.15


class Observed(NamedTuple):
    """An emulator's time under load, in a Prometheus."""

    prometheus: Prometheus
    began: float

    def values(self, expr: str) -> dict[str, list[float]]:
        for variable, value in FILLED.items():
            expr = expr.replace(variable, value)
        return self.prometheus.values(expr, self.began)


class Load:
    """Requests that make happen all that the dashboards show."""

    def __init__(self, url: str, pool: ThreadPoolExecutor) -> None:
        self._http = httpx.Client(base_url=url, timeout=120, trust_env=False)
        self._pool = pool
        self._sent = 0

    def ask(self, words: int = 8, tokens: int = 24, **wishes: str) -> int:
        """A completion; its HTTP status."""
        self._sent += 1
        # Every second one begins as one before it did.
        prompt = f"{self._sent // 2} " + "word " * words
        body = {"model": MODEL, "prompt": prompt, "max_tokens": tokens, "ignore_eos": True, **wishes}
        return self._http.post("/v1/completions", json=body).status_code

    def burst(self, requests: int) -> list["Future[int]"]:
        """Many at once, of all topics and classes."""
        topics = [NAMES[n % len(NAMES)] for n in range(requests)]
        slos = [{"slo": ("tight", "loose")[n % 2]} if n % 3 else {} for n in range(requests)]
        return [
            self._pool.submit(self.ask, WORDS, TOKENS, topic=topic, **slo)
            for topic, slo in zip(topics, slos, strict=True)
        ]

    def fault(self, fault: str) -> int:
        answer = self._http.post("/foreserve/v1/faults", json={"fault": fault})
        assert answer.status_code == 200, answer.text
        return int(answer.json()["id"])

    def mend(self, *faults: int) -> None:
        for fault in faults:
            assert self._http.delete(f"/foreserve/v1/faults/{fault}").status_code == 200

    def kv_tokens(self, device: int) -> float:
        """What a device holds now."""
        text = self._http.get("/metrics").text
        found = re.search(rf'^vllm:kv_cache_usage_perc{{.*engine="{device}".*}} (.*)$', text, re.MULTILINE)
        capacity = self._http.get("/foreserve/v1/devices").json()["devices"][device]["kv_capacity_tokens"]
        return float(found[1]) * capacity if found else 0.0

    def until(self, condition: Callable[[], bool], within_s: float = 30.0) -> None:
        end = time.monotonic() + within_s
        while not condition():
            assert time.monotonic() < end
            time.sleep(0.05)

    def run(self) -> None:
        assert self.ask() == 200
        assert self.ask(slo="strict") == 429
        first = self.burst(26)
        # So many tokens that device 0 has no room for them once it has lost HB.
        self.until(lambda: self.kv_tokens(0) > KV_LEFT_TOKENS + 200)
        degraded = self.fault("hb: left=0.6, device=0"), self.fault("lpddr: left=0.5, device=1")
        assert {each.result() for each in first} == {200}
        self.mend(*degraded)
        second = self.burst(16)
        lost = self.fault("lost: device=1")
        assert {each.result() for each in second} == {200}
        self.mend(lost)
        assert [self.ask(tokens=60) for _ in range(3)] == [200] * 3
        time.sleep(2.0)


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observed]:
    program("prometheus")  # Before anything is started.
    folder = tmp_path_factory.mktemp("prometheus")
    discovery, steps = folder / "foreserve.json", folder / "steps.parquet"
    with server(*OPTIONS, "--discovery-file", str(discovery), "--step-log", str(steps), quiet=True) as child:
        with prometheus(folder, discovery) as found, ThreadPoolExecutor(64) as pool:
            began = time.time()
            Load(child.http_url, pool).run()
            yield Observed(found, began)
        assert discovery.exists()
    assert not discovery.exists()
    assert len(read_step_log(steps)) > 100


@pytest.mark.parametrize("name", DASHBOARDS)
def test_every_query_of_a_dashboard_finds_something(observed: Observed, name: str) -> None:
    silent = [
        f"{where}: {expr}"
        for where, expr in queries(name)
        if not expr.startswith("label_values(") and not observed.values(expr)
    ]
    assert not silent, "\n".join(["These find nothing:", *silent])


@pytest.mark.parametrize("name", DASHBOARDS)
def test_every_variable_has_values_to_choose_from(observed: Observed, name: str) -> None:
    for where, query in queries(name):
        if query.startswith("label_values("):
            metric, _, label = query.removeprefix("label_values(").removesuffix(")").rpartition(", ")
            for variable, value in FILLED.items():
                metric = metric.replace(variable, value)
            assert observed.prometheus.get(f"label/{label}/values", **{"match[]": metric}), f"{where}: {query}"


def test_every_recording_rule_records_and_every_alert_has_something_to_judge(observed: Observed) -> None:
    loaded = observed.prometheus.get("rules")["groups"]
    assert {rule["health"] for group in loaded for rule in group["rules"]} == {"ok"}
    silent = []
    for rule in rules():
        asked = [rule["expr"], rule["record"]] if "record" in rule else sorted(metrics_in(rule["expr"]))
        silent += [f"{rule.get('record') or rule['alert']}: {expr}" for expr in asked if not observed.values(expr)]
    assert not silent, "\n".join(["These find nothing:", *silent])


def test_vllms_own_dashboards_are_answered(observed: Observed) -> None:
    assert not [expr for expr in vllm_queries() if not observed.values(expr)]


def most(observed: Observed, expr: str) -> float:
    return max((max(values) for values in observed.values(expr).values()), default=0.0)


@pytest.mark.parametrize("what", HAPPENED)
def test_what_the_load_makes_happen_is_seen(observed: Observed, what: str) -> None:
    assert most(observed, HAPPENED[what]) > 0, f"There was no {what}: {HAPPENED[what]}"


def test_shares_are_shares_and_the_clock_is_right(observed: Observed) -> None:
    for name in DASHBOARDS:
        for where, expr in bounded(name):
            for series, values in observed.values(expr).items():
                assert min(values) >= -1e-9 and max(values) <= 1.0 + SLACK, f"{where} of {series} is {max(values)}"
    assert most(observed, "rate(foreserve_emulated_seconds_total[10s])") == pytest.approx(SPEED, rel=0.1)


def bounded(name: str) -> Iterator[tuple[str, str]]:
    """Queries of panels whose axis ends at 100 %."""
    for panel in panels(name):
        defaults: dict[str, Any] = panel["fieldConfig"]["defaults"]
        if defaults["unit"] == "percentunit" and defaults.get("max") == 1:
            yield from ((panel["title"], target["expr"]) for target in panel["targets"])


@pytest.mark.parametrize("metric", ["foreserve_mode_switches_total", "foreserve_faults_total"])
def test_the_first_of_rare_events_is_counted(observed: Observed, metric: str) -> None:
    [panel] = [expr for _, expr in queries("accelerator") if f"increase({metric}" in expr]
    seen, in_all = (observed.values(expr).values() for expr in (panel, f"sum({metric})"))
    # Each is seen for as long as the window: at every fourth of the points, a second apart.
    assert sum(sum(values) for values in seen) > 0.5 * max(max(values) for values in in_all)
