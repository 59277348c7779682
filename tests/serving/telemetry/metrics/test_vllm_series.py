"""Is each series that vLLM has there, or is the reason told why it isn't?"""

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest
import vllm
from prometheus_client import CollectorRegistry
from vllm.config import CacheConfig

from serving.clock import WallClock
from serving.telemetry import metrics as metrics_package
from serving.telemetry.metrics import Metrics, ServedModel
from tests.serving.telemetry.metrics.samples import measured

README = Path(metrics_package.__file__).parent / "README.md"
# Beginnings of names that vLLM's own client of benchmarks looks for, and no names.
BEGINNINGS = {"vllm:spec_decode", "vllm:diffusion"}


@pytest.fixture(scope="module")
def names() -> set[str]:
    """All names of series in vLLM's source, as its modules give them to Prometheus: without a `_total` of counters."""
    found = set[str]()
    for path in Path(vllm.__file__).parent.rglob("*.py"):
        found |= set(re.findall(r"""["'](vllm:[a-z0-9_]+)["']""", path.read_text(encoding="utf-8")))
    return {name.removesuffix("_total") for name in found - BEGINNINGS}


@pytest.fixture(scope="module")
def ours() -> set[str]:
    registry = CollectorRegistry()
    Metrics(registry, ServedModel("m", 4096), WallClock(0.0, speed=1.0))
    return {family.name.removesuffix("_total") for family in registry.collect() if family.name.startswith("vllm:")}


def told() -> set[str]:
    """The names, or patterns, that the README gives a reason for."""
    reasons = README.read_text(encoding="utf-8").partition("## vLLM's other series")[2]
    return {name.removesuffix("_total") for name in re.findall(r"`(vllm:[a-z0-9_*]+)`", reasons)}


def test_vllm_has_the_names_that_are_looked_for(names: set[str]) -> None:
    assert len(names) > 100 and {"vllm:num_requests_running", "vllm:prefix_cache_hits"} <= names


def test_each_of_vllms_series_is_there_or_told_of(names: set[str], ours: set[str]) -> None:
    reasons = told()
    assert {name for name in names - ours if not any(fnmatch(name, reason) for reason in reasons)} == set()


def test_no_reason_is_told_for_what_is_there_or_what_vllm_has_not(names: set[str], ours: set[str]) -> None:
    assert {reason for reason in told() if not any(fnmatch(name, reason) for name in names - ours)} == set()


def test_ours_have_no_names_that_vllm_does_not_know(names: set[str], ours: set[str]) -> None:
    assert ours - names == set()


def test_of_each_label_of_the_cache_that_ours_lacks_the_reason_is_told() -> None:
    _, registry = measured()
    (family,) = (family for family in registry.collect() if family.name == "vllm:cache_config_info")
    ours, vllms = set(family.samples[0].labels), CacheConfig().metrics_info().keys() | {"engine"}
    assert ours - vllms == {"model_name"}
    reason = (
        README.read_text(encoding="utf-8").partition("`cache_config_info` has of vLLM's labels")[2].partition("\n\n")[0]
    )
    named = re.findall(r"`([a-z_]+)(?:\.\.\.)?`", reason)
    assert len(named) >= 4
    assert all(any(label.startswith(name) for label in vllms - ours) for name in named)
