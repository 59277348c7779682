"""Does a study that varies the mode say in a sentence which one wins where?"""

from pathlib import Path

import pytest

from serving.study.axes import LOAD
from serving.study.point_factory import points_of
from serving.study.questions import settings_of
from serving.study.report.mode_verdict import mode_verdict
from serving.study.results import Results
from serving.study.spec import load_study
from serving.study.study import Finding, Study
from serving.study.summary import Row

CAPACITY = """
question = "capacity"
slo = { ttft_ms = 1000, share = 0.9 }
axes = { hardware = ["elmoe3d-4gb", "elmoe3d-8gb"], mode = ["fixed-ar", "fixed-sd", "tau"] }
[workload]
duration_s = 60
prompt = 9
output = 9
arrivals = { kind = "closed", users = 4 }
"""
SWEEP = """
question = "sweep"
{targets}
axes = {{ load = [1, 2], mode = ["fixed-ar", "tau"] }}
[workload]
requests = 10
prompt = 9
output = 9
arrivals = {{ kind = "poisson", rate_per_s = 1 }}
"""


def study(tmp_path: Path, text: str) -> Study:
    path = tmp_path / "study.toml"
    path.write_text(text, encoding="utf-8")
    return load_study(path)


def of_users(
    tmp_path: Path,
    users: dict[tuple[str, str], int],
    short: tuple[str, str] | None = None,
    beyond: tuple[tuple[str, str], ...] = (),
) -> str:
    rows: list[Row] = [
        {
            "hardware": hardware,
            "mode": mode,
            LOAD: count / 4,
            "users": count,
            "j_per_token": 1 / max(1, count),
            "limit": "workload too short"
            if (hardware, mode) == short
            else "none up to 4"
            if (hardware, mode) in beyond
            else "TTFT",
        }
        for (hardware, mode), count in users.items()
    ]
    return mode_verdict(Results(study(tmp_path, CAPACITY), tmp_path, rows, []))


def of_points(asked: Study, tmp_path: Path, figures: dict[str, tuple[float, ...]]) -> str:
    findings = []
    for settings in settings_of(asked):
        [point] = points_of(asked, settings)
        value = figures[point.scenario.mode][int(settings.get(LOAD, 1)) - 1]
        row = {"goodput_per_s": value, "e2e_mean_s": 1 / value, "j_per_token": 0.5, "judged": 9}
        findings.append(Finding(point, row))
    return mode_verdict(Results(asked, tmp_path, [], findings))


def test_nothing_is_told_of_a_place_whose_workload_is_too_short(tmp_path: Path) -> None:
    users = {
        (hardware, mode): count
        for hardware in ("elmoe3d-4gb", "elmoe3d-8gb")
        for mode, count in (("fixed-ar", 10), ("fixed-sd", 20))
    }
    assert "elmoe3d-4gb" in of_users(tmp_path, users)
    said = of_users(tmp_path, users, ("elmoe3d-4gb", "fixed-sd"))
    assert "elmoe3d-8gb" in said and "elmoe3d-4gb" not in said


def test_of_users_it_says_where_speculating_is_worth_it_by_how_much_and_where_not(tmp_path: Path) -> None:
    users = {
        ("elmoe3d-4gb", "fixed-ar"): 20,
        ("elmoe3d-4gb", "fixed-sd"): 16,
        ("elmoe3d-4gb", "tau"): 20,
        ("elmoe3d-8gb", "fixed-ar"): 32,
        ("elmoe3d-8gb", "fixed-sd"): 64,
        ("elmoe3d-8gb", "tau"): 63,
    }
    assert of_users(tmp_path, users) == (
        "Speculating is worth it at elmoe3d-8gb (fixed-sd and tau: 2.00 times the users of fixed-ar, 50 % fewer joules "
        "a token); it is not at elmoe3d-4gb (fixed-ar and tau; fixed-sd 0.80 times its users)."
    )


def test_where_nothing_is_held_at_all_nothing_is_said_and_a_mode_alone_is_told_too(tmp_path: Path) -> None:
    assert of_users(tmp_path, {("elmoe3d-4gb", mode): 0 for mode in ("fixed-ar", "tau")}) == ""
    only = {("elmoe3d-8gb", "tau"): 9}
    assert of_users(tmp_path, only) == ""


def test_without_plain_decoding_to_compare_with_it_says_which_mode_does_best(tmp_path: Path) -> None:
    users = {("elmoe3d-4gb", "fixed-sd"): 20, ("elmoe3d-4gb", "tau"): 40}
    assert of_users(tmp_path, users) == "Most users at elmoe3d-4gb (tau; fixed-sd 0.50 times its users)."


@pytest.mark.parametrize(
    ("targets", "name"), [("", "speed of a request"), ("slo = { ttft_ms = 9, share = 0.9 }", "goodput")]
)
def test_of_points_at_each_load_it_compares_goodput_or_without_targets_speed(
    tmp_path: Path, targets: str, name: str
) -> None:
    told = of_points(
        study(tmp_path, SWEEP.format(targets=targets)), tmp_path, {"fixed-ar": (1.0, 1.0), "tau": (1.01, 1.5)}
    )
    assert told == (
        f"Speculating is worth it at load 2 (tau: 1.50 times the {name} of fixed-ar, as many joules a token); it is "
        "not at load 1 (fixed-ar and tau)."
    )


def test_variants_that_differ_in_the_mode_alone_are_modes_and_others_are_not(tmp_path: Path) -> None:
    text = CAPACITY.replace("capacity", "compare").replace(CAPACITY.splitlines()[3] + "\n", "")
    figures = {"fixed-ar": (1.0,), "tau": (2.0,)}
    modes = text + '[variants]\na = { mode = "fixed-ar" }\nb = { mode = "tau" }\n'
    assert of_points(study(tmp_path, modes), tmp_path, figures).startswith("Speculating is worth it (tau: 2.00 times")
    more = text + '[variants]\na = { mode = "fixed-ar" }\nb = { mode = "tau", devices = 2 }\n'
    assert of_points(study(tmp_path, more), tmp_path, figures) == ""


def test_where_each_mode_holds_all_that_may_be_tried_nothing_is_said(tmp_path: Path) -> None:
    users = {("elmoe3d-4gb", "fixed-ar"): 16, ("elmoe3d-4gb", "fixed-sd"): 16}
    assert of_users(tmp_path, users, beyond=tuple(users)) == ""
    one = of_users(tmp_path, {**users, ("elmoe3d-4gb", "fixed-ar"): 4}, beyond=(("elmoe3d-4gb", "fixed-sd"),))
    assert "is worth it" in one


@pytest.mark.parametrize(
    ("with_tau", "said"),
    [
        (
            (1.6, 1.2, 0.7),
            "3 seeds cannot tell whether speculating is worth it (tau: 1.17 times the goodput of fixed-ar, as many "
            "joules a token; seeds vary by up to 86 %).",
        ),
        (
            (1.21, 1.2, 1.19),
            "Speculating is worth it (tau: 1.20 times the goodput of fixed-ar, as many joules a token).",
        ),
        ((0.9, 0.9, 0.9), "Speculating is not (fixed-ar; tau 0.90 times its goodput)."),
    ],
)
def test_a_lead_that_seeds_may_have_made_makes_no_mode_worth_it(
    tmp_path: Path, with_tau: tuple[float, ...], said: str
) -> None:
    text = SWEEP.format(targets="slo = { ttft_ms = 9, share = 0.9 }\nseeds = [0, 1, 2]").replace("load = [1, 2], ", "")
    asked = study(tmp_path, text)
    findings = []
    for settings in settings_of(asked):
        for point in points_of(asked, settings):
            value = with_tau[point.seed or 0] if point.scenario.mode == "tau" else 1.0
            row = {"goodput_per_s": value, "e2e_mean_s": 1 / value, "j_per_token": 0.5, "judged": 9}
            findings.append(Finding(point, row))
    assert mode_verdict(Results(asked, tmp_path, [], findings)) == said
