"""Do figures of cost follow from prices, power and tokens, and are they part of answers?"""

import io
from pathlib import Path

import pytest
from rich.console import Console

from device_model.specs.hardware_file import FOLDER
from device_model.specs.spec_file import path_of
from serving.study import load_study, run_study
from serving.study.measures.cost import Cost
from serving.study.report.answer_sentence import answer_sentence
from serving.study.results import Results
from serving.study.spec import StudyError
from serving.study.terminal_table import show

STUDY = """
question = "{question}"
slo = {{ ttft_ms = 3000 }}
{more}
[axes]
hardware = ["elmoe3d-4gb", "elmoe3d-8gb"]
[scenario]
devices = 2
[workload]
requests = 40
arrivals = {{ kind = "closed", users = 4 }}
prompt = 100
output = 40
[cost]
currency = "CHF"
node_price = 1000
device_price = {{ elmoe3d-4gb = 2000, elmoe3d-8gb = 90000 }}
years = 2
watts = 100
kwh_price = 0.25
"""


def ran(folder: Path, question: str = "sweep", more: str = "") -> Results:
    path = folder / "study.toml"
    path.write_text(STUDY.format(question=question, more=more))
    return run_study(load_study(path), folder / "out")


def test_cost_is_what_was_bought_and_what_is_drawn(tmp_path: Path) -> None:
    results = ran(tmp_path)
    for row in results.points.to_dict("records"):
        price = 1000 + 2 * {"elmoe3d-4gb": 2000, "elmoe3d-8gb": 90000}[row["hardware"]]
        per_hour = price / (2 * 365.25 * 24) + (row["power_w"] + 100) / 1000 * 0.25
        assert row["cost_per_hour"] == pytest.approx(per_hour)
        assert row["cost_per_million_tokens"] == pytest.approx(per_hour * 1e6 / (3600 * row["tokens_per_s"]))
        assert row["cost_per_user_month"] == pytest.approx(per_hour * 365.25 * 24 / 12 / 4)
    console = Console(file=io.StringIO(), width=200)
    show(results, console)
    for told in (console.file.getvalue(), results.report.read_text()):  # type: ignore[attr-defined]
        assert (
            "Costs are in CHF: 1,000 for a node, 2,000 for each elmoe3d-4gb, 90,000 for each elmoe3d-8gb over" in told
        )


@pytest.mark.slow
def test_the_cheapest_place_can_be_searched_for_and_prices_make_no_point_anew(tmp_path: Path) -> None:
    (dear,) = ran(tmp_path, "search", 'search = { maximise = "cost_per_million_tokens" }').answer_rows
    (cheap,) = ran(tmp_path, "search", 'search = { minimise = "cost_per_million_tokens" }').answer_rows
    assert (cheap["hardware"], dear["hardware"]) == ("elmoe3d-4gb", "elmoe3d-8gb")
    made = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "points").iterdir()}
    path = tmp_path / "study.toml"
    path.write_text(path.read_text().replace("node_price = 1000", "node_price = 9000"))
    assert run_study(load_study(path), tmp_path / "out").points.cost_per_hour.min() > 0.5
    assert made == {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "points").iterdir()}


def test_a_place_that_serves_nobody_is_not_the_cheapest(tmp_path: Path) -> None:
    """Its prompts are longer than its context: what a token costs there nobody knows."""
    lengths = 'max_model_len = [64, 4096]\n"workload.prompt" = [20, 100]'
    text = STUDY.format(question="search", more='search = { minimise = "cost_per_million_tokens" }')
    text = text.replace('hardware = ["elmoe3d-4gb", "elmoe3d-8gb"]', lengths).replace("elmoe3d-4gb = 2000, ", "")
    (tmp_path / "study.toml").write_text(text)
    results = run_study(load_study(tmp_path / "study.toml"), tmp_path / "out")
    (found,) = results.answer_rows
    assert found["kept"] and found["workload.prompt"] == 20 and results.points.refused.max() == 40


@pytest.mark.parametrize(("seeds", "each"), [("", ""), ("seeds = [0, 1]", " with each seed")])
def test_where_no_place_serves_anybody_none_is_the_cheapest(tmp_path: Path, seeds: str, each: str) -> None:
    """As all are late before they begin, and are turned away."""
    text = STUDY.format(question="search", more=f'search = {{ minimise = "cost_per_million_tokens" }}\n{seeds}')
    late = 'slo_classes = ["strict: ttft_ms=0.01"]\ndefault_slo = "strict"\n[workload]\n'
    (tmp_path / "study.toml").write_text(text.replace("[workload]\n", late).replace("slo = { ttft_ms = 3000 }", ""))
    results = run_study(load_study(tmp_path / "study.toml"), tmp_path / "out")
    assert results.points.refused.min() == 40 and not results.answer_rows[0]["kept"]
    assert answer_sentence(results) == f"No place serves anybody{each}."
    console = Console(file=io.StringIO(), width=200)
    show(results, console)
    for told in (console.file.getvalue(), results.report.read_text()):  # type: ignore[attr-defined]
        assert f"No place serves anybody{each}." in told
        assert "that is closest" not in told and "It is nearest" not in told


@pytest.mark.parametrize(
    ("axes", "prices", "says"),
    [
        (
            'hardware = ["elmoe3d-4gb", "stratum-s", "a6000"]',
            "elmoe3d-4gb = 2, a6000 = 3",
            "line 17: `cost.device_price` has no price of stratum-s: it must have one of all that runs have (or 0), "
            "elmoe3d-4gb, stratum-s, a6000.",
        ),
        (
            'hardware = ["elmoe3d-4gb", "elmoe3d-8gb"]',
            "elmo3d-4gb = 2, elmoe3d-8gb = 3",
            "`cost.device_price.elmo3d-4gb` is a price of hardware that no run has (did you mean `elmoe3d-4gb`?); "
            "allowed are elmoe3d-4gb, elmoe3d-8gb.",
        ),
        ('fleet = [["2 x elmoe3d-4gb", "a6000"]]', "elmoe3d-4gb = 2", "has no price of a6000"),
        ('fleet = [["2 x elmoe3d-4gb", "a6000"]]', "elmoe3d-4gb = 2, a6000 = 0", ""),
        ("tau = [2, 3]", "elmoe3d-4gb = 2", "`cost.device_price.elmoe3d-4gb` is a price of hardware that no run has"),
        ("tau = [2, 3]", "elmoe3d-8gb = 2", ""),
        ('hardware = ["./own.toml"]', '"./own.toml" = 2', ""),
    ],
)
def test_all_hardware_has_a_price_and_no_other_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, axes: str, prices: str, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.toml").write_text(path_of("a6000", FOLDER).read_text())
    text = STUDY.format(question="sweep", more="").replace('hardware = ["elmoe3d-4gb", "elmoe3d-8gb"]', axes)
    path = tmp_path / "study.toml"
    path.write_text(text.replace("elmoe3d-4gb = 2000, elmoe3d-8gb = 90000", prices).replace("devices = 2", ""))
    if not says:
        assert load_study(path).cost
        return
    with pytest.raises(StudyError) as raised:
        load_study(path)
    assert says in str(raised.value)


def test_an_open_loop_has_no_users_and_a_silent_run_no_tokens() -> None:
    cost = Cost("EUR", 8766.0, 0.0, 1.0, 0.0, 0.0)
    assert cost.figures({"power_w": 5.0, "tokens_per_s": 0.0}, (), None) == {"cost_per_hour": 1.0}


def test_prices_are_told_to_the_last_digit() -> None:
    told = str(Cost("JPY", 1_234_567.0, {"elmoe3d-8gb": 2_345_678.5}, 3.0, 0.0, 0.0))
    assert told == "Costs are in JPY: 1,234,567 for a node, 2,345,678.5 for each elmoe3d-8gb over 3 years."


def test_a_comparison_has_what_it_costs_and_the_percentiles_that_are_asked(tmp_path: Path) -> None:
    text = STUDY.format(question="compare", more='variants.small.mode = "fixed-ar"\nvariants.large.mode = "fixed-sd"')
    text = text.replace("slo = { ttft_ms = 3000 }", "slo = { e2e_p75_ms = 30000 }").replace(', "elmoe3d-8gb"]', "]")
    (tmp_path / "study.toml").write_text(text.replace(", elmoe3d-8gb = 90000", ""))
    results = run_study(load_study(tmp_path / "study.toml"), tmp_path / "out")
    one, other = results.answer_rows
    for name in ("cost_per_million_tokens", "cost_per_user_month", "e2e_p75_s"):
        base, mine = (results.points.set_index("variant")[name][variant] for variant in ("small", "large"))
        assert (one[name], other[name]) == pytest.approx((base, mine))
        assert other[f"{name} /base"] == pytest.approx(mine / base)
    console = Console(file=io.StringIO(), width=250)
    show(results, console)
    told = console.file.getvalue()  # type: ignore[attr-defined]
    assert "times the cost of a million tokens" in told
    assert all(head in told for head in ("cost/Mtok", "/user/month", "E2E p75"))
    page = results.report.read_text()
    assert page.count("cost of a user a month") > 1 and page.count("E2E p75") > 1
