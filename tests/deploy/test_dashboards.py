"""Are the dashboards those that are generated, complete, and about metrics that there are?"""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from tests.deploy.prometheus import ROOT, RULES, metrics_in
from tests.serving.telemetry.metrics.samples import everything, measured
from tools.dashboards.__main__ import DASHBOARDS
from tools.dashboards.tiers import FAST, SLOW

FOLDER = ROOT / "deploy/grafana/dashboards"
# Prometheus's own, and the Python client's.
OTHERS = {"up", "scrape_duration_seconds", "process_cpu_seconds_total"}
GRID = 24


def loaded(name: str) -> dict[str, Any]:
    """A dashboard as it is committed."""
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return found


def panels(name: str) -> list[dict[str, Any]]:
    """Those that show something."""
    return [panel for panel in loaded(name)["panels"] if panel["type"] != "row"]


def queries(name: str) -> Iterator[tuple[str, str]]:
    """Every query of a dashboard, with where it is."""
    dashboard = loaded(name)
    for panel in panels(name):
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for annotation in dashboard["annotations"]["list"]:
        yield f"annotation {annotation['name']}", annotation["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield f"variable {variable['name']}", variable["query"]


def rules() -> list[dict[str, Any]]:
    """Recording rules and alerts."""
    files = [yaml.safe_load(path.read_text()) for path in sorted(RULES.glob("*.yml"))]
    return [rule for file in files for group in file["groups"] for rule in group["rules"]]


def samples(registry: CollectorRegistry) -> set[str]:
    """The names of all series."""
    return {sample.name for family in registry.collect() for sample in family.samples}


@pytest.fixture(scope="module")
def known() -> set[str]:
    """Every name that the emulator has series of, once all that can happen has happened."""
    metrics, registry = measured()
    everything(metrics, 1)
    metrics.set_info(model="m")
    return samples(registry)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_what_is_committed_is_what_is_generated(name: str) -> None:
    assert (FOLDER / f"{name}.json").read_text() == DASHBOARDS[name](), (
        "Run `make dashboards` and commit what it makes."
    )


def test_there_is_no_other() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(DASHBOARDS)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_every_panel_says_what_it_shows(name: str) -> None:
    for panel in panels(name):
        assert panel["title"] and len(panel["description"]) > 15 and panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert all(target["legendFormat"] for target in panel["targets"]), panel["title"]
    titles = [(panel["title"], panel["type"]) for panel in panels(name)]
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_panels_lie_on_the_grid_and_on_no_other(name: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in loaded(name)["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= GRID, panel["title"]
        area = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not area & taken, panel["title"]
        taken |= area
    assert len({panel["id"] for panel in loaded(name)["panels"]}) == len(loaded(name)["panels"])


@pytest.mark.parametrize("name", DASHBOARDS)
def test_every_metric_that_is_asked_for_exists(name: str, known: set[str]) -> None:
    for where, expr in queries(name):
        asked = metrics_in(expr)
        assert asked, where
        assert asked <= known | OTHERS, f"{where}: {expr}"


@pytest.mark.parametrize("name", ["serving", "accelerator"])
def test_what_devices_do_is_told_per_emulated_second(name: str) -> None:
    """Their texts say that seconds are emulated ones. Rates over rates, as shares and quantiles are, need no clock."""
    for panel in panels(name):
        rates = panel["type"] == "heatmap" or re.search("[Pp]er (emulated )?second", panel["description"])
        if rates:
            exprs = [target["expr"] for target in panel["targets"]]
            assert all("foreserve_emulated_seconds_total" in expr for expr in exprs), panel["title"]


def test_rules_ask_for_metrics_that_exist_and_alerts_say_what_to_do(known: set[str]) -> None:
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    for rule in rules():
        name = rule.get("record") or rule["alert"]
        assert metrics_in(rule["expr"]) <= known | OTHERS | recorded, f"{name}: {rule['expr']}"
        if "alert" in rule:
            assert rule["labels"]["severity"] in ("page", "ticket"), name
            assert len(rule["annotations"]["summary"]) > 20 and len(rule["annotations"]["description"]) > 80, name


def shows(expr: str, tier: str) -> bool:
    """Whether a query selects a tier."""
    found = re.search(r'tier(=~|!~)"([^"]*)"', expr)
    assert found is not None
    return bool(re.fullmatch(found[2], tier)) is (found[1] == "=~")


def test_panels_show_tiers_of_any_hardware_by_their_own_names() -> None:
    """Titles and texts name no tier that some hardware lacks; queries and colours have those of all kinds, and
    queries the fast tier of one that is still to come."""
    shown = [text for panel in panels("accelerator") for text in (panel["title"], panel["description"])]
    assert not [text for text in shown if re.search(r"HB|LPDDR|HBM|interposer", text)]
    fast, slow = (expr for _, expr in queries("accelerator") if "foreserve_tier_used_bytes" in expr)
    for name in (*FAST, *SLOW, "sram"):
        assert (shows(fast, name), shows(slow, name)) == (name not in SLOW, name in SLOW)
    assert {"hb", "mono3d", "hbm", "dram"} == set(FAST) and {"lpddr", "interposer", "host"} == set(SLOW)
    by_name = {panel["title"]: panel for panel in panels("accelerator")}
    for title in ("Energy per token", "Faults now"):
        painted = json.dumps(by_name[title]["fieldConfig"]["overrides"])
        assert all(f'"{name}"' in painted for name in (*FAST, *SLOW)), title


def test_metrics_are_found_in_queries() -> None:
    assert metrics_in('sum by (a, le) (rate(x_total{b=~"$c"}[5m] offset 1m)) / on (d) group_left () (y > 0)') == {
        "x_total",
        "y",
    }
    assert metrics_in('label_values(z{b="x"}, device)') == {"z"}


# What vLLM's own dashboards (overview, instances, KV cache, speculative decoding) ask for, but in rows for what an
# emulator has not: adapters, images, transfers of KV, sleep.
VLLM_COUNTERS = (
    *("request_success", "prompt_tokens", "generation_tokens", "num_preemptions", "prefix_cache_hits"),
    *("prefix_cache_queries", "prompt_tokens_cached", "spec_decode_num_drafts", "spec_decode_num_draft_tokens"),
    *("spec_decode_num_accepted_tokens", "spec_decode_num_accepted_tokens_per_pos", "admission_rejections"),
    *("prompt_tokens_by_source", "prompt_tokens_cached_by_source"),
)
VLLM_GAUGES = (
    *("num_requests_running", "num_requests_waiting", "num_requests_waiting_by_reason", "kv_cache_usage_perc"),
    "cache_config_info",
)
VLLM_HISTOGRAMS = (
    *("time_to_first_token_seconds", "inter_token_latency_seconds", "request_time_per_output_token_seconds"),
    *("e2e_request_latency_seconds", "request_queue_time_seconds", "request_prefill_time_seconds"),
    *("request_decode_time_seconds", "request_inference_time_seconds", "iteration_tokens_total"),
    *("request_prompt_tokens", "request_generation_tokens", "request_params_max_tokens", "request_params_n"),
    "request_max_num_generation_tokens",
)
# Their SLO tiles take these bounds.
VLLM_BOUNDS = {"time_to_first_token_seconds": "1.0", "request_time_per_output_token_seconds": "0.1"}


def vllm_queries() -> Iterator[str]:
    """As those dashboards ask: by model and engine."""
    these = 'model_name=~".+", engine=~".+"'
    for name in VLLM_COUNTERS:
        labels = 'model_name=~".+"' if name == "admission_rejections" else these
        yield f"sum(rate(vllm:{name}_total{{{labels}}}[$__rate_interval]))"
    for name in VLLM_GAUGES:
        yield f"sum by (model_name, engine) (vllm:{name}{{{these}}})"
    for name in VLLM_HISTOGRAMS:
        yield f"histogram_quantile(0.95, sum by (le) (rate(vllm:{name}_bucket{{{these}}}[$__rate_interval])))"
        total, count = (f"sum(rate(vllm:{name}_{part}{{{these}}}[$__rate_interval]))" for part in ("sum", "count"))
        yield f"{total} / ({count} > 0)"
    for name, le in VLLM_BOUNDS.items():
        yield f'sum(rate(vllm:{name}_bucket{{{these}, le="{le}"}}[$__rate_interval]))'
    yield 'sum(vllm:num_requests_waiting_by_reason{reason="deferred"})'
    yield 'sum(rate(vllm:prompt_tokens_by_source_total{source="local_compute"}[$__rate_interval]))'


def test_vllms_own_dashboards_find_their_metrics(known: set[str]) -> None:
    for expr in vllm_queries():
        assert metrics_in(expr) <= known, expr
