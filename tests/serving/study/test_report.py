"""Is a study's report whole: all that it is to show, of each question, in one file that needs nothing else?"""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from serving.study.point_factory import points_of
from serving.study.report import write_report
from serving.study.report.pareto import front_of
from serving.study.report.repeat import repeat, without_keys
from serving.study.report.units import bound, scale, setting, words
from serving.study.results import Results
from serving.study.spec import StudyError, load_study
from serving.study.store import Store
from serving.study.study import Finding, Inquiry
from serving.study.summary import COLUMNS, Row
from serving.workload import load_workload
from serving.workload.source import Source

WORKLOAD = """
[workload]
requests = 25
arrivals = { kind = "poisson", rate_per_s = 2 }
prompt = 100
output = { kind = "uniform", min = 10, max = 60 }
"""
SLO = "slo = { ttft_ms = 600, tpot_ms = 60, share = 0.9 }\n"
SWEEP = f'question = "sweep"\n{SLO}seeds = [0, 1]\n[axes]\nload = [1, 3]\nhardware = ["elmoe3d-4gb", "elmoe3d-8gb"]\n'
CAPACITY = f'question = "capacity"\n{SLO}[capacity]\ntolerance = 1\nmost = 4\n[axes]\ndevices = [1, 2]\n'
SEARCH = """
question = "search"
search = { maximise = "goodput_per_s", where = ["tpot_p99_s <= 0.05"], trials = 5 }
axes = { tau = { from = 1, to = 9 }, batching = ["fcfs", "slo-aware"] }
"""
COMPARE = (
    'question = "compare"\nseeds = [0, 1]\n[variants.plain]\nmode = "fixed-ar"\n[variants.drafts]\nmode = "fixed-sd"\n'
)
OVER_TIME = ["modes", "experts"]


def answer(inquiry: Inquiry, store: Store, findings: list[Finding]) -> Row | None:
    """Its answer, of points that are made here and now."""
    points = next(inquiry)
    while True:
        made = []
        for point in points:
            try:
                run = point.run()
            except ValueError as error:
                made.append(Finding(point, {}, str(error)))
            else:
                store.put(point.key, run)
                made.append(Finding(point, run.summary))
        findings += made
        try:
            points = inquiry.send(made)
        except StopIteration as ending:
            return ending.value


def reported(folder: Path, text: str, workload: str = WORKLOAD) -> Results:
    path = folder / "asked.toml"
    path.write_text(text + workload)
    study, findings = load_study(path), list[Finding]()
    store = Store(folder / "out", study)
    found = [answer(inquiry, store, findings) for inquiry in study.question.inquiries(study)]
    answers = study.question.answers(study, [each for each in found if each is not None], findings)
    results = Results.write(study, store, answers, findings)
    write_report(results)
    return results


class Page(HTMLParser):
    """What a page is made of: its ids, its text, what it would load, and whether each element has its end."""

    VOID = ("meta", "br")

    def __init__(self, html: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.loads: list[str] = []
        self.scripts, self.titled = 0, 0
        self.words = ""
        self._open: list[str] = []
        self.feed(html)
        assert not self._open

    @property
    def elsewhere(self) -> list[str]:
        """What it would take from anywhere but itself."""
        return [each for each in self.loads if not re.fullmatch(r"#[\w-]+|[^(]*(url\(#[\w-]+\)[^(]*)+", each)]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        self.titled += tag == "title" and "svg" in self._open
        for name, value in attrs:
            self.ids += [value or ""] if name == "id" else []
            self.loads += [value or ""] if name in ("src", "href", "xlink:href") or "url(" in (value or "") else []
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] not in ("style", "script"):
            self.words += data


def page_of(results: Results) -> Page:
    return Page(results.report.read_text())


@pytest.mark.parametrize(
    ("text", "figures", "asked"),
    [
        (SWEEP, ["load", "latencies", "pareto", *OVER_TIME], "each combination of load and hardware"),
        (
            CAPACITY,
            ["capacity", "load", "latencies", "pareto", *OVER_TIME],
            "highest load at which 90 % of the requests",
        ),
        (
            SEARCH,
            ["trials", "latencies", "pareto", *OVER_TIME],
            "most goodput with TPOT p99 ≤ 50 ms, over tau and batching",
        ),
        (COMPARE, ["ratios", "latencies", "pareto", *OVER_TIME], "drafts beside plain, under the same requests"),
    ],
    ids=["sweep", "capacity", "search", "compare"],
)
def test_each_question_has_its_page(tmp_path: Path, text: str, figures: list[str], asked: str) -> None:
    results = reported(tmp_path, text)
    html = results.report.read_text()
    page = Page(html)
    assert [each for each in page.ids if f'<figure id="{each}">' in html] == figures
    assert asked in page.words
    # All can be told what a picture is of, and none takes anything from another, or from elsewhere.
    assert page.titled == len(figures) and len(page.ids) == len(set(page.ids))
    assert page.loads and not page.elsewhere and "http" not in html
    assert "@import" not in html and page.scripts == 1 and "turned away" not in html
    # With what it takes to run it again.
    assert results.study.text in page.words and '"foreserve": "0.1.0"' in page.words


def test_the_picture_of_latencies_says_how_many_were_turned_away(tmp_path: Path) -> None:
    """Of those who were served it rises to 100 %, however few they were."""
    text = f'question = "sweep"\n{SLO}[scenario]\nmax_num_seqs = 1\nmax_queue = 1\n'
    results = reported(tmp_path, text)
    refused = results.findings[0].row["refused_share"]
    assert refused > 0.1
    assert f"Up to {100 * refused:.4g} % were turned away, and are in no line." in page_of(results).words


@pytest.mark.slow
def test_the_same_results_are_the_same_page(tmp_path: Path) -> None:
    results = reported(tmp_path, SWEEP.replace("seeds = [0, 1]", "seeds = [0]"))
    first = results.report.read_bytes()
    write_report(results)
    assert results.report.read_bytes() == first


def test_what_anybody_has_written_is_text(tmp_path: Path) -> None:
    hostile = "</title><script>alert('$x$')</script> & \\\"'"
    text = f'title = "{hostile}"\n' + COMPARE.replace("drafts", '"<img src=x>"').replace("plain", '"a$b$<i>"')
    page = page_of(reported(tmp_path, text))
    assert page.scripts == 1 and not page.elsewhere
    assert page.words.count("<script>alert('$x$')</script> & \"'") >= 2 and "<img src=x>" in page.words
    assert "a$b$<i>" in page.words


@pytest.mark.slow
def test_points_that_fail_are_named_before_anything_else(tmp_path: Path) -> None:
    some = 'kv_tier = ["all", "fast"]\npreemption = ["recompute", "spill"]\n'
    text = SWEEP.replace('hardware = ["elmoe3d-4gb", "elmoe3d-8gb"]\n', some).replace("seeds = [0, 1]\n", "")
    words = page_of(reported(tmp_path, text)).words
    named = words.index("load=3, kv_tier=all, preemption=spill")
    assert "2 of 8 points failed" in words and named < words.index("SLO attainment")
    assert words.count("there is nowhere to spill to") >= 4  # In the box, and in the table.


def test_a_study_of_which_all_points_fail_has_a_page(tmp_path: Path) -> None:
    for index, text in enumerate((SWEEP, CAPACITY, SEARCH, COMPARE)):
        folder = tmp_path / str(index)
        folder.mkdir()
        page = page_of(reported(folder, "judge = { from_s = 1000 }\n" + text))
        assert "points failed" in page.words and "No request arrives" in page.words and not page.titled


def test_only_what_makes_sense_is_shown(tmp_path: Path) -> None:
    text = f'question = "sweep"\n{SLO}[scenario]\nmode = "fixed-ar"\n'
    page = page_of(reported(tmp_path, text))
    assert "load" not in page.ids and "pareto" not in page.ids
    assert "There is no SD" in page.words and "Shown" not in page.words


def test_a_run_without_a_request_fails_by_itself(tmp_path: Path) -> None:
    workload = WORKLOAD.replace("requests = 25", "duration_s = 1")
    results = reported(tmp_path, f'question = "sweep"\n{SLO}[axes]\nload = [0.001, 4]\n', workload)
    ((failed, sentence),) = results.failed
    assert failed.load == 0.001 and "No request arrives before the workload ends" in sentence
    assert list(results.points.load) == [4] and page_of(results).titled
    assert page_of(reported(tmp_path, f'question = "sweep"\n{SLO}[axes]\nload = [0.001]\n', workload)).titled == 0


@pytest.mark.slow
def test_of_many_combinations_some_are_told_apart_and_the_others_are_grey(tmp_path: Path) -> None:
    axes = "[axes]\ntau = [1, 2, 3, 4, 5, 6, 7, 8]\nload = [1, 2]\n"
    results = reported(tmp_path, f'question = "sweep"\n{SLO}{axes}', WORKLOAD.replace("25", "6"))
    page = page_of(results)
    assert "Grey, unnamed: 2 other combinations." in page.words and "the best 4" in page.words
    assert results.report.stat().st_size < 1_000_000


class Dot:
    def __init__(self, x: float, y: float) -> None:
        self.x, self.y = x, y


def test_no_point_beats_one_of_the_front_in_both() -> None:
    dots = [Dot(x, y) for x, y in [(3, 1), (1, 4), (2, 4), (2, 2), (3, 3), (4, 1), (1, 5)]]
    assert [(each.x, each.y) for each in front_of(dots)] == [(1, 4), (2, 2), (3, 1)]  # type: ignore[arg-type]


def test_figures_have_one_unit_a_column_and_as_many_decimals_as_help() -> None:
    assert scale("ttft_p99_s", [0.5804, 0.01]).text(0.5804) == "580 ms"
    assert scale("ttft_p99_s", [12.34, 0.58]).text(0.58) == "0.58 s"
    assert scale("attainment", [0.9727]).text(0.9727) == "97.3 %"
    assert scale("j_per_token", [0.0426]).text(0.0426) == "42.6 mJ/token"
    assert scale("requests", [25, 100]).number(25) == "25" and scale("tpot_p99_s", [None]).number(None) == "-"
    assert bound("tpot_p99_s", 0.05) == "50 ms" and bound("attainment", 0.99) == "99 %"
    assert setting("hardware", "elmoe3d-8gb") == "elmoe3d-8gb" and setting("depth", "6") == "depth 6"
    assert setting("workload.output.mean", 220) == "output.mean 220"
    assert all(words(name) for name in COLUMNS) and words("tpot_p99_s") == "TPOT p99"


def test_no_key_of_a_study_is_in_its_report() -> None:
    text = 'scenario = { api_keys = ["sesame", "open"], admin_keys = [\'root\'] }\ntitle = "sesame street"\n'
    kept = without_keys(text, {"api_keys": ("sesame", "open"), "admin_keys": ("root",)})
    assert kept == 'scenario = { api_keys = ["***", "***"], admin_keys = [\'***\'] }\ntitle = "sesame street"\n'


def test_no_key_of_a_variant_is_in_the_report_or_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "asked.toml"
    path.write_text(f'question = "sweep"\nvariants.one.api_keys = ["sesame"]\nvariants.two.tau = 3\n{WORKLOAD}')
    study = load_study(path)
    told = repeat(Results(study, tmp_path, [], []))
    assert "sesame" not in told and "***" in told and "tau" in told
    Store(tmp_path / "out", study)
    assert "sesame" not in (tmp_path / "out" / "about.json").read_text()
    path.write_text(f'question = "sweep"\naxes.api_keys = [["sesame"], ["open"]]\n{WORKLOAD}')
    with pytest.raises(StudyError, match=r"line 2: `axes\.api_keys` is secret") as refused:
        load_study(path)
    assert "sesame" not in str(refused.value)


def test_a_key_that_a_workload_gives_requests_to_is_told_by_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORESERVE_API_KEYS", "open-1234,sesame-1234")
    path = tmp_path / "asked.toml"
    path.write_text(f'question = "sweep"\naxes.tau = [2]\n{WORKLOAD}keys = {{ sesame-1234 = 3, team = 1 }}\n')
    study = load_study(path)
    told = repeat(Results(study, tmp_path, [], []))
    assert "sesame-1234" not in told and "team" in told
    Store(tmp_path / "out", study)
    assert json.loads((tmp_path / "out" / "about.json").read_text())["workload"]["keys"] == {"1": 3, "team": 1}
    (point,) = points_of(study, {"tau": 2})
    assert set(point.run().requests.key) == {"1", "team"}


def test_what_a_study_is_about_is_told_in_json_that_anything_reads(tmp_path: Path) -> None:
    """Where nothing is asked, targets have no end, and JSON has no word for that."""
    path = tmp_path / "asked.toml"
    path.write_text(f'question = "sweep"\n{WORKLOAD}')
    Store(tmp_path / "out", load_study(path))
    told = json.loads((tmp_path / "out" / "about.json").read_text(), parse_constant=pytest.fail)
    assert told["targets"]["ttft_s"] is None and told["workload"]["requests"] == 25


def test_where_all_are_refused_there_is_a_report_without_pictures_of_time(tmp_path: Path) -> None:
    hurried = 'scenario = { slo_classes = ["x: ttft_ms=1"], default_slo = "x" }\n'
    results = reported(tmp_path, f'question = "sweep"\n{SLO}{hurried}axes = {{ devices = [1, 2] }}\n')
    assert results.points["refused"].sum() == len(results.points) * 25
    page = Page((results.folder / "report.html").read_text())
    assert not set(OVER_TIME) & set(page.ids)


def test_of_seeds_of_which_the_first_has_all_refused_another_is_shown_over_time(tmp_path: Path) -> None:
    """Its one request is longer than the context with the first seed, and with the other it is not."""
    workload = """
[workload]
requests = 1
arrivals = { kind = "constant", rate_per_s = 1 }
prompt = { kind = "uniform", min = 10, max = 1000 }
output = 10
"""
    long, short = sorted((0, 1), key=lambda seed: -first_prompt(tmp_path, workload, seed))
    room = (first_prompt(tmp_path, workload, long) + first_prompt(tmp_path, workload, short)) // 2
    asked = f'question = "sweep"\nseeds = [{long}, {short}]\nscenario.max_model_len = {room}\n'
    results = reported(tmp_path, asked, workload)
    assert list(results.points["steps"] > 0) == [False, True]
    page = Page((results.folder / "report.html").read_text())
    assert set(OVER_TIME) <= set(page.ids) and f"with seed {short}" in page.words


def first_prompt(folder: Path, workload: str, seed: int) -> int:
    """The tokens of a workload's first prompt with a seed."""
    path = folder / "workload.toml"
    path.write_text(workload.replace("[workload]", ""))
    return next(iter(Source(load_workload(path, seed=seed)))).prompt_tokens
