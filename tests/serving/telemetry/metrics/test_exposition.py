"""Are there as few series as promised, each with its name, help and labels, written as the library would?"""

from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client import Histogram as Reference
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from serving.clock import WallClock
from serving.telemetry import metrics as metrics_package
from serving.telemetry.metrics import Metrics, ServedModel
from serving.telemetry.metrics.families import Family, Histogram
from tests.serving.telemetry.metrics.samples import everything, measured

README = Path(metrics_package.__file__).parent / "README.md"


@given(values=st.lists(st.floats(0, 20), max_size=50))
def test_a_tally_counts_as_the_librarys_histogram_does(values: list[float]) -> None:
    bounds, registry = (0.001, 0.5, 1.0, 10.0), CollectorRegistry()
    theirs, ours = Reference("h", "h", buckets=bounds, registry=registry), Histogram(bounds)
    for value in [*values, *bounds]:
        theirs.observe(value)
        ours.observe(value)
    family = next(iter(registry.collect()))
    buckets = [sample.value for sample in family.samples if sample.name == "h_bucket"]
    assert np.cumsum(ours.counts).tolist() == buckets
    assert registry.get_sample_value("h_sum") == pytest.approx(ours.sum)


# Series of a device, and of the rest, that all which can happen leaves behind at most: buckets count.
MOST_A_DEVICE, MOST_IN_ALL = 845, 130


def series_of(registry: CollectorRegistry) -> Counter[str]:
    text = generate_latest(registry).decode()
    return Counter(family.name for family in text_string_to_metric_families(text) for _ in family.samples)


def test_cardinality_is_bounded_and_every_metric_has_help_and_a_base_unit() -> None:
    counts = {}
    for devices in (1, 3):
        metrics, registry = measured(devices)
        everything(metrics, devices)
        counts[devices] = sum(series_of(registry).values())
    assert (counts[3] - counts[1]) / 2 <= MOST_A_DEVICE
    assert counts[1] <= MOST_A_DEVICE + MOST_IN_ALL
    for family in registry.collect():
        assert len(family.documentation) > 5, family.name
        assert not any(unit in family.name for unit in ("_ms", "_mj", "_gb", "_mib", "percent")), family.name


def read(text: str) -> dict[str, tuple[str, str, dict[tuple[str, frozenset[tuple[str, str]]], float]]]:
    found = {}
    for family in text_string_to_metric_families(text):
        values = {(sample.name, frozenset(sample.labels.items())): sample.value for sample in family.samples}
        found[family.name] = family.type, family.documentation, values
    return found


def test_a_scrape_writes_what_the_library_would() -> None:
    metrics, registry = measured(2)
    everything(metrics, 2)
    metrics.devices.device.values[("7", 'a "quoted"\\ name\n', "gone")] = 1
    written = "".join(family.written() for family in registry.collect() if isinstance(family, Family))
    theirs = read(generate_latest(registry).decode())
    # Two read of a clock.
    for name in ("foreserve_emulated_seconds", "foreserve_idle_energy_joules", "foreserve_power_watts"):
        assert theirs.pop(name)[:2] == read(written)[name][:2]
    assert {name: each for name, each in read(written).items() if name in theirs} == theirs


PICKED = [
    ["foreserve_device"],
    ["foreserve_tier_bytes_total", "vllm:time_to_first_token_seconds_bucket"],
    ["vllm:time_to_first_token_seconds_sum", "vllm:iteration_tokens_total_count", "foreserve_speed"],
    # A counter and a histogram have no samples of these names, and of the others there is nothing.
    ["foreserve_tier_bytes", "vllm:time_to_first_token_seconds", "", "# HELP", "no_such_metric"],
]


SAMPLES = {name for names in PICKED[:-1] for name in names}


@pytest.mark.parametrize("names", PICKED)
def test_a_scrape_of_some_series_writes_what_the_library_would_and_makes_none_one_by_one(
    names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics, registry = measured(2)
    everything(metrics, 2)
    metrics.devices.device.values[("7", 'a "quoted"\\ name\n\x0b\u2028', "gone")] = 1
    restricted = registry.restricted_registry(names)
    picked = [found for family in registry.collect() if (found := Metric._restricted_metric(family, {*names}))]
    theirs = generate_latest(SimpleNamespace(collect=lambda: picked)).decode()  # type: ignore[arg-type]
    assert read(generate_latest(restricted).decode()) == read(theirs)
    made_one_by_one = property(lambda family: pytest.fail("Each sample was made."), lambda family, samples: None)
    monkeypatch.setattr(Family, "samples", made_one_by_one)
    written = "".join(family.written() for family in restricted.collect() if isinstance(family, Family))
    assert read(written) == read(theirs)
    assert {sample for _, _, values in read(written).values() for sample, _ in values} == {*names} & SAMPLES


def test_the_clock_is_a_metric() -> None:
    registry = CollectorRegistry()
    clock = WallClock(0.0, speed=2.0)
    Metrics(registry, ServedModel("m", 4096), clock)
    assert registry.get_sample_value("foreserve_speed") == 2
    before_s = clock.now()
    told_s = registry.get_sample_value("foreserve_emulated_seconds_total")
    assert told_s is not None and before_s <= told_s <= clock.now()


def test_the_readme_has_each_metric_and_its_labels() -> None:
    _, registry = measured()
    table = {line.split("`")[1]: line for line in README.read_text(encoding="utf-8").splitlines() if line[:3] == "| `"}
    metrics = {f"{f.name}_total" if f.type == "counter" else f.name: f for f in registry.collect()}
    assert set(table) == set(metrics) | {"foreserve_info"}
    for name, family in metrics.items():
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        assert labels <= set(table[name].split("|")[2].replace(" ", "").split(",")) | {""}, name
        assert family.documentation in table[name]
