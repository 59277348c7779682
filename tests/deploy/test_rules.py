"""Do Prometheus's own tools accept the rules, and do alerts fire when they should, and only then?"""

import json
import subprocess
from pathlib import Path

import pytest

from tests.deploy.prometheus import ROOT, RULES, program
from tests.deploy.test_dashboards import panels


def promtool(*arguments: str) -> str:
    done = subprocess.run([program("promtool"), *arguments], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_rules_are_rules() -> None:
    assert "SUCCESS" in promtool("check", "rules", *map(str, sorted(RULES.glob("*.yml"))))


def test_the_configuration_is_one_and_finds_the_rules() -> None:
    assert "2 rule files found" in promtool("check", "config", "deploy/prometheus/prometheus.yml")


@pytest.mark.slow
def test_alerts_fire_when_they_should_and_only_then() -> None:
    promtool("test", "rules", "tests/deploy/alerts.yml")


def test_devices_are_no_more_than_busy_while_one_of_them_drains(tmp_path: Path) -> None:
    (busy,) = (panel for panel in panels("accelerator") if panel["title"] == "Busy" and panel["type"] == "stat")
    expr, ours = busy["targets"][0]["expr"], 'job="foreserve", instance="i"'
    for variable, chosen in (("$__rate_interval", "5m"), ("$job", ".*"), ("$instance", ".*"), ("$device", ".*")):
        expr = expr.replace(variable, chosen)
    series = {f"foreserve_emulated_seconds_total{{{ours}}}": "0+60x10"}
    for device, now in (("0", "serving"), ("1", "draining")):
        series[f'foreserve_busy_seconds_total{{{ours}, device="{device}"}}'] = "0+54x10"
        series |= {
            f'foreserve_device{{{ours}, device="{device}", state="{state}"}}': f"{int(state == now)}x10"
            for state in ("serving", now)
        }
    given = [{"series": name, "values": values} for name, values in series.items()]
    asked = {"expr": expr, "eval_time": "10m", "exp_samples": [{"labels": "{}", "value": 0.9}]}
    written = tmp_path / "busy.json"
    written.write_text(json.dumps({"tests": [{"interval": "1m", "input_series": given, "promql_expr_test": [asked]}]}))
    promtool("test", "rules", str(written))
