"""Is the comparison of policies fair, and do the policies do what they are for?"""

import dataclasses
import io
import json
from itertools import product

import pytest
from rich.console import Console

from device_model.load import load_device
from serving.cli.main import make_parser
from serving.device.pricing import ModelPricer
from serving.device.slow_tier import SlowTier
from serving.policies.modes import POLICIES as MODES
from serving.policies.modes import Modes
from serving.policies.step_options import StepOptions
from serving.reports import mode_ramp, policy_comparison
from serving.reports.policy_comparison import PolicyFigures, figures, mixed, run
from serving.reports.policy_report import markdown, show, write
from serving.scenario.scenario import Scenario
from serving.scheduler.config import Limits, SchedulerRules
from serving.simulation.node import VirtualNode
from serving.topics.names import NAMES
from serving.types import Request
from tests.serving.simulation.virtually import serve_virtually

BASE = dataclasses.replace(Scenario(), max_num_seqs=16)


def of(rate_per_s: float, count: int = 60, **changes: object) -> PolicyFigures:
    return figures(*run(dataclasses.replace(BASE, **changes), mixed(count, 3, rate_per_s)))  # type: ignore[arg-type]


def test_the_same_requests_come_at_any_rate_only_sooner() -> None:
    slow, fast = mixed(50, 1, 2.0), mixed(50, 1, 8.0)
    for one, other in zip(slow, fast, strict=True):
        assert one.arrival_s == pytest.approx(4 * other.arrival_s)
        assert (one.prompt_tokens, one.max_tokens, one.topic, one.ttft_s) == (
            *(other.prompt_tokens, other.max_tokens),
            *(other.topic, other.ttft_s),
        )
    assert {each.topic for each in slow} == set(NAMES)
    assert len({each.ttft_s for each in slow}) == 3


def test_cost_is_never_much_worse_than_the_better_mode() -> None:
    for hardware in ("elmoe3d-4gb", "elmoe3d-8gb"):
        rates = {
            mode: of(float("inf"), mode=mode, hardware=hardware).tokens_per_s
            for mode in ("fixed-ar", "fixed-sd", "cost")
        }
        assert rates["cost"] >= 0.97 * max(rates["fixed-ar"], rates["fixed-sd"])


def test_under_overload_more_requests_are_served_as_promised_if_deadlines_are_looked_at() -> None:
    shares = {name: of(8.0, 120, batching=name).good_share for name in ("fcfs", "slo-aware")}
    assert shares["slo-aware"] > shares["fcfs"] + 0.1


def test_batches_of_one_topic_find_more_of_their_experts() -> None:
    """With nobody in a hurry, and much to choose from."""
    crowd = mixed(150, 0, 2.0, hurried=False)
    hits = {}
    for name in ("fcfs", "topic-aware"):
        scenario = dataclasses.replace(BASE, batching=name, mode="fixed-ar", placement="topic", patience_s=1e4)
        hits[name] = figures(*run(scenario, crowd)).hit_rate
    assert hits["topic-aware"] > 1.02 * hits["fcfs"]


def test_two_devices_in_virtual_time_serve_what_they_are_given() -> None:
    step_options = StepOptions(load_device("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b"))
    limits = Limits(8, 2048, step_options.device.kv_capacity_tokens)
    nodes = [
        VirtualNode(
            i,
            ModelPricer(step_options, Modes.of("fixed-ar", ())),
            SlowTier(step_options.device.ext_bytes_per_s),
            limits,
            SchedulerRules(),
        )
        for i in (0, 1)
    ]
    requests = [Request(str(i), 0.3 * i, 50, 20) for i in range(10)]
    outcomes, records = serve_virtually(requests, nodes, choose=lambda request: int(request.id) % 2)
    assert [each.device for each in outcomes] == [0, 1] * 5
    assert all(len(each.tokens_s) == 20 and each.started_s >= each.request.arrival_s for each in outcomes)
    assert {record.device for record in records} == {0, 1}
    # Each device by itself: the same as if the other were not there.
    [alone] = [
        VirtualNode(
            0,
            ModelPricer(step_options, Modes.of("fixed-ar", ())),
            SlowTier(step_options.device.ext_bytes_per_s),
            limits,
            SchedulerRules(),
        )
    ]
    by_itself, _ = serve_virtually(requests[::2], [alone])
    assert [each.tokens_s for each in by_itself] == [each.tokens_s for each in outcomes[::2]]


@pytest.mark.slow
def test_the_report_has_every_run_and_the_json_is_json(tmp_path, capsys, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(policy_comparison, "LOADS", (0.9,))
    brief = {mode_ramp.RAMP: mode_ramp.up_and_down(2, 3.0), mode_ramp.WAVERING: mode_ramp.wavering(1, 2, 2.0, 2)}
    monkeypatch.setattr(mode_ramp, "LOADS", brief)
    monkeypatch.setattr(mode_ramp, "OUTPUT_TOKENS", 64)
    args = make_parser().parse_args(["policies", "--requests", "8", "--seeds", "0", "--json", "--out", str(tmp_path)])
    assert args.run(args) == 0
    printed = capsys.readouterr().out
    results = json.loads(printed)
    assert {row["kind"] for row in results["runs"]} >= {"batching", "mode", "prefill"}
    *_, few, one_seed = results["caveats"]
    count = len(results["runs"])
    assert few.startswith(
        f"Few requests were judged: 8 where they are fewest, fewer than 300 in {count} of {count} runs."
    )
    assert "one seed (0)" in one_seed and one_seed.endswith("--seeds 0 1 2.")
    assert all(each["noise"] is None for each in results["leads"])
    text = (tmp_path / "report.md").read_text()
    assert f"- {few}\n- {one_seed}\n" in text
    assert all(f"| {row['policy']} |" in text for row in results["runs"]) and "`cost` against the better" in text
    assert text.count("\n| elmoe3d-4gb |") == 4 and text.count("- `tau` on elmoe3d") == 2
    assert {(row["load"], row["policy"]) for row in results["ramp"]} == set(product(brief, MODES))
    assert (tmp_path / "ramp.png").stat().st_size > 10_000
    assert markdown(results, "x").count("\n| 0.9 ") == len(results["runs"])
    assert "joules those of steps, without what an idle device draws." in markdown(results, "x")
    assert len(write(results, "x", tmp_path)) == 2
    narrow = Console(width=80, file=io.StringIO())
    show(results, "x", narrow)
    assert isinstance(narrow.file, io.StringIO)
    lines = narrow.file.getvalue().splitlines()
    assert max(map(len, lines)) <= 80 and sum("tokens/s" in line and "policy" in line for line in lines) >= 5


def test_each_run_is_counted_and_their_number_known_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_comparison, "LOADS", (0.9,))
    monkeypatch.setattr(mode_ramp, "LOADS", {mode_ramp.RAMP: [mode_ramp.Stage(1, 0.1)]})
    monkeypatch.setattr(mode_ramp, "OUTPUT_TOKENS", 2)
    counts: list[tuple[int, int]] = []
    found = policy_comparison.compare(
        Scenario(), 2, (0,), lambda progress: counts.append((progress.done, progress.expected))
    )
    assert counts == [(index + 1, len(counts)) for index in range(len(counts))] and len(counts) > len(found["runs"])


@pytest.mark.slow
def test_with_several_seeds_figures_are_means_of_the_same_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_comparison, "LOADS", (0.9,))
    monkeypatch.setattr(mode_ramp, "LOADS", {mode_ramp.RAMP: [mode_ramp.Stage(1, 0.1)]})
    monkeypatch.setattr(mode_ramp, "OUTPUT_TOKENS", 2)
    found = policy_comparison.compare(Scenario(), 5, (0, 1, 2))
    assert found["seeds"] == [0, 1, 2] and not any("one seed" in each for each in found["caveats"])
    for row in found["runs"]:
        each = [of_seed["j_per_token"] for of_seed in row["by_seed"]]
        assert row["j_per_token"] == pytest.approx(sum(each) / 3) and len(set(each)) == 3
    (one,) = {row["rate_per_s"] for row in found["runs"] if row["kind"] == "mode"}
    at_once = [run(BASE, mixed(5, seed, float("inf")))[0] for seed in (0, 1, 2)]
    rates = [0.9 * 5 / max(each.last_s for each in outcomes) for outcomes in at_once]
    assert len(set(rates)) == 3 and one == pytest.approx(sum(rates) / 3)
    assert {(lead["kind"], lead["sought"]) for lead in found["leads"]} == set(
        product({row["kind"] for row in found["runs"]}, ("most goodput", "fewest joules"))
    )
