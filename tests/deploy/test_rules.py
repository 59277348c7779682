"""Do Prometheus's own tools accept the rules, and do alerts fire when they should, and only then?"""

import subprocess

from tests.deploy.prometheus import ROOT, RULES, program


def promtool(*arguments: str) -> str:
    done = subprocess.run([program("promtool"), *arguments], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_rules_are_rules() -> None:
    assert "SUCCESS" in promtool("check", "rules", *map(str, sorted(RULES.glob("*.yml"))))


def test_the_configuration_is_one_and_finds_the_rules() -> None:
    assert "2 rule files found" in promtool("check", "config", "deploy/prometheus/prometheus.yml")


def test_alerts_fire_when_they_should_and_only_then() -> None:
    promtool("test", "rules", "tests/deploy/alerts.yml")
