"""Does a report begin with the answer, and do its pictures show what is worth something, legibly?"""

import io
import re
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from rich.console import Console

from serving.study import load_study, run_study
from serving.study.point import shown
from serving.study.report import svg
from serving.study.report.answer_sentence import answer_sentence
from serving.study.results import Results
from serving.study.summary import Row
from serving.study.terminal_table import FIGURES, duration, show

WORKLOAD = """
[workload]
requests = 24
arrivals = { kind = "poisson", rate_per_s = 2 }
prompt = 100
output = { kind = "uniform", min = 10, max = 60 }
"""
HARDWARE = 'axes.hardware = ["elmoe3d-4gb", "stratum-s"]\nscenario.model = "olmoe-1b-7b"\n'


def ran(folder: Path, text: str) -> Results:
    path = folder / "study.toml"
    path.write_text(text + WORKLOAD)
    return run_study(load_study(path), folder / "out")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            f'question = "sweep"\nslo.ttft_ms = 60000\n{HARDWARE}',
            r"Most goodput: .* \(.* req/s, .*/token\); least energy: ",
        ),
        ('question = "sweep"\nslo.ttft_ms = 60000\naxes.load = [1, 2]\n', r"Most goodput and least energy: load 2 \("),
        (
            f'question = "capacity"\nslo.tpot_ms = 15\ncapacity = {{ tolerance = 1, most = 4 }}\n{HARDWARE}',
            r"stratum-s holds most: at least .* req/s, .* times what elmoe3d-4gb does, which holds least\.",
        ),
        (
            f'question = "search"\nsearch = {{ minimise = "tpot_p75_s" }}\n{HARDWARE}',
            r"stratum-s has the least TPOT p75 of 2 places: .* ms\.",
        ),
        (
            'question = "compare"\nvariants.short.max_model_len = 105\nvariants.long.tau = 2\n'
            'axes."workload.prompt" = [30, 100]\n',
            r"Beside short: long has .*energy\. Where one of both serves nobody, nothing is compared\. One seed",
        ),
        (
            'question = "capacity"\nslo.tpot_ms = 1000\njudge.from_s = 5\n',
            r"The workload is too short to tell what it holds: at twice the load nobody comes in the window of `judge`",
        ),
        (
            'question = "compare"\nvariants.plain = { mode = "fixed-ar" }\nvariants.drafts = { mode = "fixed-sd" }\n',
            r"Beside plain: drafts has as much goodput, .* times the TPOT p99 and .*energy\. "
            r"One seed cannot tell how far these vary: several can, as `seeds = \[0, 1, 2\]`\.$",
        ),
    ],
)
def test_the_answer_is_a_sentence_at_the_top(tmp_path: Path, text: str, sentence: str) -> None:
    results = ran(tmp_path, text)
    said = answer_sentence(results)
    assert re.match(sentence, said)
    _, _, answer = results.report.read_text().partition('<section id="answer">\n')
    assert answer.startswith(f'<p class="best">{said}</p>')


@pytest.mark.parametrize("search", ['minimise = "ttft_p99_s"', 'maximise = "attainment"', 'minimise = "e2e_p75_s"'])
def test_a_search_of_places_that_serve_nobody_names_none(tmp_path: Path, search: str) -> None:
    hurried = 'scenario = { slo_classes = ["x: ttft_ms=0.01"], default_slo = "x" }\naxes.devices = [1, 2]\n'
    results = ran(tmp_path, f'question = "search"\nslo.e2e_p75_ms = 1\nsearch = {{ {search} }}\n{hurried}')
    assert answer_sentence(results) == "No place serves anybody."
    assert "nearest" not in results.report.read_text() and results.answer_rows[0]["tried"] == 2


def test_a_comparison_of_variants_that_serve_nobody_has_no_multiples(tmp_path: Path) -> None:
    hurried = 'scenario = { slo_classes = ["x: ttft_ms=0.01"], default_slo = "x" }\n'
    variants = "variants.plain.mode = 'fixed-ar'\nvariants.drafts.mode = 'fixed-sd'\n"
    console = Console(file=io.StringIO(), width=200)
    show(ran(tmp_path, f'question = "compare"\n{hurried}{variants}'), console)
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert "As nobody is served, nothing is compared." in printed and "x 1.000" not in printed


def test_without_targets_whoever_is_served_keeps_them(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=200)
    show(ran(tmp_path, 'question = "sweep"\nscenario.max_queue = 1\n'), console)
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert "No combination keeps its targets." in printed and "so whoever is served keeps them." in printed


def held(users: int, **settings: object) -> Row:
    """An answer that holds so many users, each of whom asks 25 times less than once a second."""
    return settings | {"load": users / 10, "users": users, "offered_per_s": users / 25, "limit": "TPOT"}


MODES = ("fixed-ar", "fixed-sd", "tau", "cost", "of-my-own")


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (
            [held(7, mode="fixed-ar"), *(held(9, mode=mode) for mode in MODES[1:4])],
            "fixed-sd, tau and cost hold most: 9 users (0.360 req/s) each, 1.286 times what fixed-ar does, which holds "
            "least.",
        ),
        (
            [held(7, mode="fixed-ar"), held(7, mode="fixed-sd"), held(9, mode="tau")],
            "tau holds most: 9 users (0.360 req/s), 1.286 times what fixed-ar and fixed-sd do, which hold least.",
        ),
        (
            [held(9, mode=mode) for mode in MODES],
            "fixed-ar, fixed-sd, tau and 2 more hold most: 9 users (0.360 req/s) each.",
        ),
        (
            [held(9, mode="tau"), held(9, mode="cost") | {"offered_per_s": 0.4, "limit": "none up to 9"}],
            "cost holds every load that was tried, up to `most`. tau holds 9 users (0.360 req/s).",
        ),
        (
            [held(9, mode="tau", devices=2), held(9, mode="cost", devices=1), held(3, mode="tau", devices=1)],
            "tau (devices 2) and cost (devices 1) hold most: 9 users (0.360 req/s) each, 3.00 times what tau, devices "
            "1 does, which holds least.",
        ),
        (
            [held(9, mode="tau"), held(18, mode="cost") | {"limit": "none up to 9"}],
            "cost holds most: at least 18 users (0.720 req/s), at least 2.00 times what tau does, which holds least.",
        ),
        (
            [held(9, mode=mode) | {"limit": "none up to 9"} for mode in MODES[:2]],
            "fixed-ar and fixed-sd hold every load that was tried, up to `most`.",
        ),
        (
            [held(9, mode="tau"), held(3, mode="fixed-ar"), held(99, mode="cost") | {"limit": "workload too short"}],
            "The workload is too short to tell what cost holds: at twice the load hardly more is served, and the "
            "targets are kept to its end (give it more `requests`, or a longer `duration_s`). Of the others, tau holds "
            "most: 9 users (0.360 req/s), 3.00 times what fixed-ar does, which holds least.",
        ),
        (
            [
                {"mode": "tau", "load": 4.0, "offered_per_s": 2.0, "limit": "TTFT"},
                {"mode": "cost", "load": 1.0, "offered_per_s": 0.0, "limit": "TTFT"},
            ],
            "tau holds most: 2.00 req/s.",
        ),
        ([held(9, mode="tau"), {"mode": "cost", "load": 0.0}], "tau holds most: 9 users (0.360 req/s); 1 of 2 com"),
    ],
)
def test_all_that_hold_as_many_are_named(tmp_path: Path, rows: list[Row], sentence: str) -> None:
    path = tmp_path / "study.toml"
    path.write_text(f'question = "capacity"\nslo.tpot_ms = 15\naxes.mode = ["tau", "cost"]\n{WORKLOAD}')
    assert answer_sentence(Results(load_study(path), tmp_path, rows, [])).startswith(sentence)


TOO_SHORT = """
question = "capacity"
slo = { ttft_ms = 8000, tpot_ms = 100 }
[workload]
requests = 100
arrivals = { kind = "poisson", rate_per_s = 16 }
prompt = 100
output = 20
"""


def test_no_capacity_is_told_of_a_workload_that_is_over_before_it_is_late(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(TOO_SHORT)
    results = run_study(load_study(path), tmp_path / "out")
    (row,) = results.answer_rows
    assert row["limit"] == "workload too short" and row["load"] < 64
    served = re.match(
        r"The workload is too short to tell what it holds: at twice the load hardly more than ([\d.]+) req/s is served",
        answer_sentence(results),
    )
    most = max(finding.row["served_per_s"] for finding in results.findings)
    # As told, in three digits.
    assert served and most / 1.1 < float(served[1]) <= float(f"{most:.3g}")


@pytest.mark.slow
def test_a_study_that_is_cut_ranks_nobody_by_what_it_is_too_short_to_tell(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(TOO_SHORT.replace("[workload]", "axes.devices = [1, 2]\n[workload]"))
    said = answer_sentence(run_study(load_study(path, requests=60), tmp_path / "out"))
    assert said.startswith("The workload is too short to tell what any of 2 combinations holds: ")
    assert said.endswith("(it is cut to 60 requests: give more).")


def test_a_study_that_is_cut_before_anybody_is_judged_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(f'question = "sweep"\njudge.from_s = 60\n{WORKLOAD}')
    ((_, sentence),) = run_study(load_study(path, requests=5), tmp_path / "out").failed
    assert "from 60 s (`judge.from_s`); the last one arrives at" in sentence
    assert sentence.endswith("It is cut to 5 requests: give more (--requests), or lower `from_s`.")


def test_a_table_has_no_scientific_notation() -> None:
    _, told = FIGURES["j_per_token"]
    assert [told(joules) for joules in (4.86, 0.9996, 0.01234, 2e-8)] == ["4,860", "1,000", "12.3", "0.00002"]
    assert [duration(seconds) for seconds in (0.9996, 0.9994, 1e-8)] == ["1.00 s", "999 ms", "0.00001 ms"]
    assert [shown(load) for load in (12_345.6, 1.83456, 1e-6)] == ["12346", "1.835", "0.000001"]


def test_a_study_without_an_answer_says_nothing(tmp_path: Path) -> None:
    assert answer_sentence(ran(tmp_path, f'question = "sweep"\nslo.ttft_ms = 0.001\n{HARDWARE}')) == ""


def test_a_sweep_names_the_places_that_miss_their_targets(tmp_path: Path) -> None:
    said = answer_sentence(ran(tmp_path, f'question = "sweep"\nslo.tpot_ms = 5\n{HARDWARE}'))
    assert said.startswith("Most goodput and least energy: stratum-s (")
    assert said.endswith(". Left out, as it misses the targets: elmoe3d-4gb.")


def test_a_sweep_names_the_places_at_which_a_seed_failed(tmp_path: Path) -> None:
    """At twice the load nobody comes in the window with one of the seeds."""
    asked = 'question = "sweep"\nseeds = [0, 1]\njudge.from_s = 7\naxes.load = [1, 2]\n'
    results = ran(tmp_path, f"{asked}slo.ttft_ms = 60000\n")
    assert [str(point) for point, _ in results.failed] == ["load=2, seed=0"]
    said = answer_sentence(results)
    assert said.startswith("Most goodput and least energy: load 1 (")
    assert said.endswith(" Left out, as a seed failed there: load 2.")
    assert answer_sentence(ran(tmp_path, f"{asked}slo.ttft_ms = 0.001\n")) == ""
    assert "No combination keeps the targets with all its seeds: " in results.report.read_text()


def test_the_front_is_of_those_who_serve_anybody_in_time(tmp_path: Path) -> None:
    page = ran(tmp_path, f'question = "sweep"\nslo = {{ ttft_ms = 40 }}\naxes.load = [1, 2]\n{HARDWARE}').report
    _, _, pareto = page.read_text().partition('<figure id="pareto">')
    table = pareto.partition("<table")[2].partition("</table>")[0]
    assert "stratum-s" in table and "elmoe3d-4gb" not in table


@pytest.mark.slow
def test_pictures_have_no_more_than_eight_lines_with_a_name_and_no_text_on_an_axis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures: list[Figure] = []

    class Kept(Figure):
        def savefig(self, *args: object, **options: object) -> None:
            figures.append(self)
            super().savefig(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(svg, "Figure", Kept)
    variants = "".join(f"variants.v{tau} = {{ tau = {tau} }}\n" for tau in range(1, 11))
    ran(tmp_path, f'question = "compare"\nslo = {{ ttft_ms = 2, tpot_ms = 1000 }}\naxes.load = [1, 3]\n{variants}')
    assert len(figures) >= 4
    for figure in figures:
        figure.canvas.draw()
        assert all(len(legend.get_texts()) <= 8 for legend in figure.legends)
        for panel in figure.axes:
            for text in panel.texts:
                assert text.get_window_extent().x0 >= panel.get_window_extent().x0 - 1
