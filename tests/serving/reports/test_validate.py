"""`foreserve validate`: is what it prints complete, near what the papers print, and a wrong table refused?"""

import csv
import json
import math
import subprocess
import sys

import pytest

from device_model.validation.papers import systems
from device_model.validation.table3 import COLUMNS, TABLE3
from serving.cli.commands.validate import SYSTEMS
from serving.cli.main import make_parser
from serving.usage_error import UsageError

HEAD = ",".join(COLUMNS)
QWEN_4GB = ("Qwen3-30B-A3B", "elmoe3d-4gb")
ROW = "8,Qwen3-30B-A3B,Elastic-SD,4,0.91,3.78,4.71"


def run(*argv):
    args = make_parser().parse_args([*map(str, argv)])
    return int(args.run(args))


@pytest.fixture(scope="module")
def printed():
    """As a user has it, once."""
    command = [sys.executable, "-m", "serving.cli", "validate", "--system", "elmoe3d", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
    return json.loads(done.stdout)


def table(tmp_path, *rows):
    path = tmp_path / "mine.csv"
    path.write_text("\n".join((HEAD, *rows)) + "\n")
    return path


def headline(printed, figure):
    return next(h for h in printed["headlines"] if h["figure"] == figure)


def of_all(printed):
    return next(e for e in printed["errors"] if (e["target"], e["draft"]) == ("all", "all"))


def test_it_has_cells_errors_and_headlines(printed):
    assert set(printed) == {"law", "cells", "errors", "headlines", "laws", "figures"}
    assert printed["law"] == "realisable"
    assert all({"system", "figure", "value", "reference"} <= set(h) for h in printed["headlines"])
    assert {h["system"] for h in printed["headlines"]} == {"elmoe3d"}


def test_each_cell_has_the_columns_of_the_table_and_what_it_prints(printed):
    with TABLE3.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(printed["cells"]) == len(rows) == 128
    for cell, row in zip(printed["cells"], rows, strict=True):
        bound = {"hits_ar", "slices", "needed", "highest_phi_ar", "resists", "beyond_hb"}
        assert set(cell) == {*COLUMNS, "phi_ar_ref", "phi_sd_ref", *bound, "published"}
        assert (str(cell["hb_gb"]), cell["target"], cell["draft"], str(cell["batch"])) == tuple(row.values())[:4]
        assert cell["alpha"] == float(row["alpha"])
        for mode in ("phi_ar", "phi_sd"):
            assert cell[f"{mode}_ref"] == (float(row[mode]) if row[mode] else None)
            assert math.isfinite(cell[mode]) and cell[mode] > 0


@pytest.mark.parametrize(("mode", "most"), [("phi_ar", 3.0), ("phi_sd", 7.0)])
def test_the_mean_error_is_small_and_is_that_of_the_cells_that_a_cache_can_reach(printed, mode, most):
    given = [cell for cell in printed["cells"] if cell[f"{mode}_ref"] and not cell["resists"]]
    errors = [100 * abs(cell[mode] / cell[f"{mode}_ref"] - 1) for cell in given]
    found = of_all(printed)[mode]
    assert found["cells"] == len(given) == 71
    assert found["mape"] == pytest.approx(sum(errors) / len(errors), abs=0.01)
    assert found["largest"] == pytest.approx(max(errors), abs=0.02)
    assert found["mape"] <= most


def test_errors_are_given_by_model_by_scheme_and_of_all(printed):
    groups = [(e["target"], e["draft"]) for e in printed["errors"]]
    assert len(groups) == len(set(groups)) == 5 * 5
    assert sum(e["phi_ar"]["cells"] for e in printed["errors"] if "all" not in (e["target"], e["draft"])) == 71


@pytest.mark.parametrize(("hb_gb", "reference", "off"), [(4, 3.41, 0.06), (8, 6.94, 0.03)])
def test_the_best_mode_is_as_fast_as_published_as_far_as_hb_can_serve_it(printed, hb_gb, reference, off):
    """At 4 GB, four of the sixteen cells are above what any cache reaches, and count with less."""
    found = headline(printed, f"best-mode speedup, {hb_gb} GB")
    assert found["reference"] == reference
    assert found["value"] == pytest.approx(reference, rel=off)
    published = next(law for law in printed["laws"] if law["law"] == "published")
    assert published["headlines"][found["figure"]] == pytest.approx(reference, rel=0.03)
    bests = [
        max(cell["phi_ar"], cell["phi_sd"])
        for cell in printed["cells"]
        if cell["draft"] == "Elastic-SD" and cell["hb_gb"] == hb_gb
    ]
    assert found["value"] == pytest.approx(sum(bests) / 16, abs=1e-3)


@pytest.mark.parametrize(
    ("figure", "reference"),
    [
        ("speedup over xPU, mean", 6.6),
        ("energy of xPU over ours, mean", 4.4),
    ],
)
def test_the_headlines_are_within_a_tenth(printed, figure, reference):
    found = headline(printed, figure)
    assert found["reference"] == reference
    assert found["value"] == pytest.approx(reference, rel=0.10)


def test_the_speedup_over_prior_platforms_is_a_tenth_too_high(printed):
    found = headline(printed, "speedup over the best prior platform, mean")
    assert (found["reference"], found["value"]) == (2.2, pytest.approx(2.42, abs=0.01))


def test_energies_are_predicted_and_one_is_missed(printed):
    """Nothing is fitted to them: 1.4 comes out a third too high, as the device model's README says."""
    found = headline(printed, "energy of the best prior platform over ours, mean")
    assert (found["reference"], found["value"]) == (1.4, pytest.approx(1.91, abs=0.01))
    assert not any(each["fitted"] for each in printed["figures"] if each["figure"].startswith("energy"))


def test_every_cell_and_headline_is_a_figure_too(printed):
    figures = printed["figures"]
    assert {*figures[0]} == {
        *("figure", "configuration", "model", "published", "predicted", "role", "fitted", "where")
    }  # fmt: skip
    assert len(figures) == 2 * len(printed["cells"]) + len(printed["headlines"])
    for cell, ar, sd in zip(printed["cells"], figures[::2], figures[1::2], strict=False):
        assert (ar["published"], sd["published"]) == (cell["phi_ar_ref"], cell["phi_sd_ref"])
        assert (ar["predicted"], sd["predicted"]) == pytest.approx((cell["phi_ar"], cell["phi_sd"]), abs=1e-4)
    scored = [f for f in figures if f["role"] == "score" and f["figure"].startswith("speedup over the xPU, ")]
    assert len(scored) == 2 * 71 - 1 and all(f["fitted"] for f in scored)
    resisting = [f for f in figures if f["role"] == "resists"]
    beyond = [f for f in resisting if "is the highest that any cache allows" in f["where"]]
    assert len(beyond) == 2 * 25 and not any(f["fitted"] for f in beyond)
    assert [f["figure"] for f in resisting if f not in beyond] == ["speedup over the xPU, SD", "speedup over xPU, max"]


def test_no_cell_has_more_hits_than_slices_and_what_resists_says_what_it_needs(printed):
    for cell in printed["cells"]:
        assert cell["hits_ar"] <= cell["slices"] * 1.0001 and not cell["beyond_hb"]
        assert cell["resists"] == bool(cell["phi_ar_ref"] and cell["phi_ar_ref"] > 1.02 * cell["highest_phi_ar"])
        assert not cell["resists"] or cell["needed"] > cell["slices"]
        assert (cell["needed"] is None) == (cell["phi_ar_ref"] is None)


def test_both_laws_stand_beside_each_other(printed):
    realisable, published = printed["laws"]
    assert (realisable["law"], published["law"]) == ("realisable", "published")
    assert (realisable["phi_ar"]["cells"], published["phi_ar"]["cells"]) == (71, 96)
    assert published["phi_ar"]["mape"] <= 3 and published["phi_sd"]["mape"] <= 6
    assert realisable["beyond_hb"] == 0
    assert published["beyond_hb"] == sum(cell["published"]["beyond_hb"] for cell in printed["cells"]) > 30
    for law in printed["laws"]:
        assert {h["figure"]: h["value"] for h in printed["headlines"]}.keys() == law["headlines"].keys()
        ranges = [each["faster_in"] for each in law["speculating"]]
        assert len(ranges) == 8 and all(1 <= first <= last <= 64 for runs in ranges for first, last in runs)
    (qwen,) = (each for each in realisable["speculating"] if (each["target"], each["hardware"]) == QWEN_4GB)
    assert qwen["faster_in"] == [[4, 35]]


def test_the_published_law_is_told_to_be_more_than_hb_can_serve(tmp_path, capsys):
    path = table(tmp_path, "8,Qwen3-30B-A3B,Elastic-SD,16,0.79,,")
    assert run("validate", "--law", "published", "--reference", path) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "Under the law published HB serves more experts in a step of AR than it holds, in 1 of 1 cells" in told
    assert run("validate", "--law", "published", "--json", "--reference", path) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["law"] == "published" and found["cells"][0]["beyond_hb"]
    assert found["cells"][0]["hits_ar"] > found["cells"][0]["slices"] >= found["cells"][0]["realisable"]["hits_ar"]


def test_the_figures_of_stratum_have_roles_and_errors(capsys):
    assert run("validate", "--system", "stratum", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    roles = [figure["role"] for figure in printed["figures"]]
    assert {role: roles.count(role) for role in roles} == {
        "score": 26, "check": 16, "order": 5, "input": 6, "show": 22, "resists": 6
    }  # fmt: skip
    unfitted = next(e for e in printed["errors"] if e["role"] == "score" and not e["fitted"])
    assert unfitted["figures"] == 14


def test_the_figures_of_stratum_as_a_table(capsys):
    assert run("validate", "--system", "stratum") == 0
    told = capsys.readouterr().out
    assert "decode throughput over GPU" in told and "fitted" in told
    assert "Far off: energy efficiency over GPU, best case, stratum-s, olmoe-1b-7b: 7.66 published, 10.97" in told
    assert "with 2048 tokens a batch takes GPUs 117.8 s at 286 W" in told
    assert "Resists: swap time (ms), stratum-xl, llama-4-scout: 0.45 published" in told


def test_options_of_elmoe3d_s_table_are_refused_elsewhere(tmp_path):
    for name, value in (
        ("--plots", tmp_path),
        ("--law", "published"),
        ("--reference", "x.csv"),
        ("--cross-validate", 3),
    ):
        said = (
            f"^{name} is {value} with --system stratum; allowed is --system elmoe3d, whose Table 3 {name} is about\\.$"
        )
        with pytest.raises(UsageError, match=said):
            run("validate", "--system", "stratum", name, value)


@pytest.mark.parametrize("options", [("--cross-validate", "1"), ("--cross-validate", "97")])
def test_folds_that_are_not_possible_are_refused(options):
    with pytest.raises(UsageError, match=r"--cross-validate: \d+ folds are not possible; allowed are 2 to 96"):
        run("validate", *options)


def test_errors_of_what_was_left_out_are_printed(tmp_path, capsys):
    rows = [
        f"8,DeepSeek-V2-Lite,Quant-SD,{batch},0.9,{phi_ar},2.0" for batch, phi_ar in ((1, 1.73), (4, 1.24), (8, 1.16))
    ]
    assert run("validate", "--cross-validate", "3", "--reference", table(tmp_path, *rows)) == 0
    out, err = capsys.readouterr()
    assert "Cells left out of the fit, 3 folds, law realisable" in out and "fold 3" in out
    assert err.count("Fitting without cell fold") == 3


def test_the_command_knows_every_paper():
    assert list(SYSTEMS) == systems()


def test_a_table_of_one_row_is_enough(tmp_path, capsys):
    assert run("validate", "--json", "--reference", table(tmp_path, ROW)) == 0
    found = json.loads(capsys.readouterr().out)
    (cell,) = found["cells"]
    assert (cell["hb_gb"], cell["batch"], cell["phi_ar_ref"], cell["phi_sd_ref"]) == (8, 4, 3.78, 4.71)
    assert of_all(found)["phi_ar"]["cells"] == 1
    assert headline(found, "best-mode speedup, 8 GB")["value"] == pytest.approx(
        max(cell["phi_ar"], cell["phi_sd"]), abs=1e-3
    )


def test_a_row_without_speedups_is_predicted_as_the_same_row_with(tmp_path, capsys):
    run("validate", "--json", "--reference", table(tmp_path, ROW, ROW.replace("3.78,4.71", ",")))
    known, withheld = json.loads(capsys.readouterr().out)["cells"]
    assert (withheld["phi_ar_ref"], withheld["phi_sd_ref"]) == (None, None)
    assert (withheld["phi_ar"], withheld["phi_sd"]) == (known["phi_ar"], known["phi_sd"])


def test_a_size_that_is_not_published_lies_between_those_that_are(tmp_path, capsys):
    run("validate", "--json", "--reference", table(tmp_path, *(ROW.replace("8", gb, 1) for gb in ("4", "6.25", "8"))))
    cells = json.loads(capsys.readouterr().out)["cells"]
    assert [cell["hb_gb"] for cell in cells] == [4, 6.25, 8]
    for mode in ("phi_ar", "phi_sd"):
        assert cells[0][mode] < cells[1][mode] < cells[2][mode]


def test_people_are_told_which_figures_resist_and_why(tmp_path, capsys):
    assert run("validate", "--reference", table(tmp_path, ROW.replace("4.71", "9.99"))) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "SD 4." in out and "where the paper has 9.99. The xPU takes " in out
    assert "The paper's figure needs " in out


def test_people_are_told_what_a_figure_above_any_cache_needs_of_hb(tmp_path, capsys):
    assert run("validate", "--reference", table(tmp_path, "8,Qwen3-30B-A3B,EAGLE3,16,0.33,3.11,4.1")) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "Resists: 8 GB, Qwen3-30B-A3B, EAGLE3, batch 16: AR 3.11 needs 1,43" in out
    assert "is the highest that any cache allows." in out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "can't be read; allowed is a CSV file in UTF-8"),
        ("", "line 1: no column hb_gb; required are hb_gb, target,"),
        (f"{HEAD}\n", "has no cell; a validation needs at least one row."),
        (f"{HEAD}\n{ROW.replace('3.78', 'fast')}\n", "line 2: phi_ar is 'fast'; allowed is a number in its range"),
        (f"{HEAD}\n{ROW.replace('Qwen3-30B-A3B', 'GPT-5')}\n", "There is no model 'gpt-5'; those that exist are"),
        (f"{HEAD}\n{ROW.replace('8', '12', 1)}\n", "There is no hardware 'elmoe3d-12gb'; "),
    ],
)
def test_a_wrong_table_is_refused_in_one_sentence(tmp_path, text, said):
    """As a user meets it: on stderr, with exit code 2 and no traceback."""
    path = tmp_path / "mine.csv"
    if text is not None:
        path.write_text(text)
    command = [sys.executable, "-m", "serving.cli", "validate", "--json", "--reference", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("foreserve validate: ") and said in done.stderr
    assert done.stderr.count("\n") == 1 and done.stderr.endswith(".\n")


def test_a_calibration_on_nothing_is_refused_in_one_sentence(tmp_path):
    path = table(tmp_path, ROW.replace("3.78,4.71", ","))
    command = [
        sys.executable,
        "-m",
        "serving.cli",
        "calibrate",
        "--reference",
        str(path),
        "--out",
        str(tmp_path / "o"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert done.stderr.endswith("No cell has a speedup; a calibration needs some to fit to.\n")
    assert not (tmp_path / "o").exists()


@pytest.mark.slow
def test_it_draws_four_pictures(tmp_path, capsys):
    folder = tmp_path / "drawn" / "here"
    assert run("validate", "--json", "--reference", table(tmp_path, ROW), "--plots", folder) == 0
    out, err = capsys.readouterr()
    assert len(json.loads(out)["cells"]) == 1  # what is drawn is named on stderr
    names = {"predicted-against-published.png", "speedup.png", "energy.png", "roofline.png"}
    assert {path.name for path in folder.iterdir()} == names
    assert all(path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 10_000 for path in folder.iterdir())
    assert err.count("Drawn:") == 4


@pytest.mark.slow
def test_a_place_for_pictures_that_is_a_file_is_refused_in_one_sentence(tmp_path):
    path = table(tmp_path, ROW)
    command = [sys.executable, "-m", "serving.cli", "validate", "--reference", str(path), "--plots", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
