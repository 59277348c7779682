"""Caveats of answers: are they told where laws differ or steps are beyond what was published, and only there?"""

import io
from pathlib import Path

import pytest
from rich.console import Console

from serving.study.caveats import caveats
from serving.study.point import Point
from serving.study.point_factory import points_of
from serving.study.questions import settings_of
from serving.study.results import Results
from serving.study.runner import run_study
from serving.study.spec import load_study
from serving.study.store import answer_row, point_row
from serving.study.study import Finding
from serving.study.terminal_table import show, to_json

STUDY = """
question = "sweep"
{settings}
[scenario]
law = "{law}"
mode = "{mode}"
hardware = "{hardware}"
model = "{model}"
[workload]
requests = {requests}
arrivals = {{ kind = "poisson", rate_per_s = 100 }}
prompt = 100
output = {output}
"""


def told(folder: Path, requests: int, hardware: str = "elmoe3d-4gb", **more: str) -> list[str]:
    """The caveats of a study that is run here."""
    path = folder / "study.toml"
    path.write_text(
        STUDY.format(
            **{"settings": "", "law": "realisable", "mode": "fixed-ar", "model": "glm-4.7-flash", "output": "20"}
            | more,
            requests=requests,
            hardware=hardware,
        )
    )
    return caveats(found(path))


def found(path: Path) -> Results:
    study = load_study(path)
    findings = [_finding(point) for names in settings_of(study) for point in points_of(study, names)]
    return Results(study, path.parent, [], findings)


def _finding(point: Point) -> Finding:
    return Finding(point, point.run().summary)


def test_a_lone_request_is_the_same_under_both_laws(tmp_path: Path) -> None:
    assert told(tmp_path, requests=1) == []


def test_where_a_batch_needs_more_than_hb_holds_the_answer_may_turn_on_the_law(tmp_path: Path) -> None:
    (sentence,) = told(tmp_path, requests=12)
    assert "in 1 of 1 points the paper's hit rates need more than HB holds" in sentence
    assert sentence.endswith('An axis `law = ["realisable", "published"]` tells.')


def test_a_study_that_varies_the_law_is_not_told_to(tmp_path: Path) -> None:
    (sentence,) = told(tmp_path, 12, settings='axes.law = ["realisable", "published"]')
    assert "in 2 of 2 points" in sentence and "An axis" not in sentence


def test_under_the_published_law_no_cache_could_do_it(tmp_path: Path) -> None:
    (sentence,) = told(tmp_path, 12, law="published")
    assert sentence.startswith("Under the law `published` HB serves more experts than it holds in 1 of 1 points")


@pytest.mark.parametrize("hardware", ["elmoe3d-4gb", "stratum-l"])
def test_a_batch_beyond_the_papers_is_told_of_its_systems_only(tmp_path: Path, hardware: str) -> None:
    sentences = [each for each in told(tmp_path, 40, hardware) if "beyond the batches and sizes of HB" in each]
    assert len(sentences) == (hardware == "elmoe3d-4gb")


def test_a_device_that_speculates_in_other_batches_is_named(tmp_path: Path) -> None:
    assert told(tmp_path, 1, mode="tau") == [
        "The answer may turn on the law, as speculating does: it pays on elmoe3d-4gb with glm-4.7-flash in batches "
        "of 3 to 57, as published of 4 to 62."
    ]
    (qwen,) = told(tmp_path, 1, mode="tau", model="qwen3-30b-a3b")
    assert qwen.endswith("in batches of 4 to 35, as published of 37 to 38.")
    (gpt,) = told(tmp_path, 1, "elmoe3d-8gb", mode="tau", model="gpt-oss-20b")
    assert gpt.endswith("as published of none.")
    (placed,) = told(tmp_path, 1, mode="tau", model="qwen3-30b-a3b", settings='axes.placement = ["hot", "topic"]')
    assert placed.endswith("in batches of 1 to 35, as published of 1 to 38.")
    assert told(tmp_path, 1, "elmoe3d-8gb", mode="tau", model="deepseek-v2-lite") == []
    assert told(tmp_path, 1, mode="tau", settings="axes.tau = [2, 3]") == []


@pytest.mark.parametrize(("hardware", "is_told"), [("elmoe3d-8gb", True), ("stratum-s", False), ("a6000", False)])
def test_a_locality_that_nobody_has_measured_is_told_of_caches_of_experts(
    tmp_path: Path, hardware: str, is_told: bool
) -> None:
    sentences = told(tmp_path, 1, hardware, model="olmoe-1b-7b")
    assert any(each.startswith("Locality of olmoe-1b-7b is uniform") for each in sentences) == is_told
    (row,) = map(point_row, found(tmp_path / "study.toml").findings)
    assert row["caveats"] == ("uniform locality" if is_told else "")


def test_requests_that_could_never_be_served_are_told(tmp_path: Path) -> None:
    lengths = '{ kind = "empirical", values = [100, 40000] }'
    sentences = told(tmp_path, 9, "stratum-s", model="olmoe-1b-7b", output=lengths)
    assert sentences[0].startswith("In 1 of 1 points requests could never be served (up to ")


COUNTS = [(0.5, "[1]", False), (0.9, "[1]", True), (0.9, "[1, 2, 3]", False)]


@pytest.mark.parametrize(("share", "seeds", "few"), COUNTS)
def test_few_judged_requests_are_said_to_be_few(tmp_path: Path, share: float, seeds: str, few: bool) -> None:
    settings = f"slo = {{ ttft_ms = 60000, share = {share} }}\nseeds = {seeds}"
    sentences = told(tmp_path, 12, "stratum-s", settings=settings, model="olmoe-1b-7b")
    told_of = (
        "Few requests were judged: 12 where they are fewest, fewer than 30 in 1 of 1 places. Even if none of so few is "
        "late, 25.0% of all may be: a share of 90 % is not known."
    )
    assert sentences == ([told_of] if few else [])
    (row,) = [answer_row({}, found(tmp_path / "study.toml").findings)]
    assert row["caveats"] == ("few requests judged" if few else "")


CAPACITY = """
question = "capacity"
slo = { ttft_ms = 60000, share = 0.99 }
capacity = { attainment = 0.95, tolerance = 1, most = MOST }
[scenario]
hardware = "stratum-s"
model = "olmoe-1b-7b"
[workload]
duration_s = 30
arrivals = { kind = "poisson", rate_per_s = 1 }
prompt = 50
output = 5
"""


QUESTIONS = {
    "sweep": 'question = "sweep"',
    "capacity": 'question = "capacity"\ncapacity = { tolerance = 1, most = 2 }',
    "search": 'question = "search"\nsearch = { maximise = "ttft_p99_s" }',
    "compare": 'question = "compare"\nvariants.slow = { max_num_seqs = 20 }\nvariants.fast = { max_num_seqs = 2 }',
}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize(
    ("model", "has"), [("olmoe-1b-7b", True), pytest.param("glm-4.7-flash", False, marks=pytest.mark.slow)]
)
def test_all_tables_of_answers_have_their_caveats(tmp_path: Path, question: str, model: str, has: bool) -> None:
    settings = 'slo = { ttft_ms = 60000, share = 0.5 }\naxes.hardware = ["elmoe3d-4gb", "elmoe3d-8gb"]'
    named = {"settings": settings, "law": "realisable", "mode": "fixed-ar", "hardware": "elmoe3d-8gb"}
    text = STUDY.format(**named, model=model, requests=6, output=20).replace("rate_per_s = 100", "rate_per_s = 1")
    path = tmp_path / "study.toml"
    path.write_text(text.replace('question = "sweep"', QUESTIONS[question]))
    results = run_study(load_study(path), tmp_path / "out")
    said = "uniform locality" if has else ""
    assert {row["caveats"] for row in to_json(results)["answers"]} == {said} == set(results.answers.caveats)
    _, _, page = results.report.read_text().partition('<section id="answer">')
    answer, _, pictures = page.partition("</section>")
    front, _, _ = pictures.partition('<figure id="pareto">')[2].partition("</figure>")
    for part in (answer, front):
        assert "<th>caveats</th>" in part and (f"<td>{said}</td>" in part)
    console = Console(file=io.StringIO(), width=300)
    show(results, console)
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert printed.count("uniform locality") == has * len(results.answer_rows)
    assert ("caveats" in printed) == has


def test_of_a_capacity_the_requests_of_answers_count_and_not_those_of_loads_that_were_tried(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(CAPACITY.replace("MOST", "4"))
    enough = run_study(load_study(path), tmp_path / "out")
    judged = [finding.row["judged"] for finding in enough.findings]
    assert min(judged) < 60 <= max(judged) and caveats(enough) == []
    assert [bool(point_row(each)["caveats"]) for each in enough.findings] == [count < 60 for count in judged]
    path.write_text(CAPACITY.replace("MOST", "1"))
    few = run_study(load_study(path), tmp_path / "out")
    (sentence,) = caveats(few)
    assert sentence.startswith(
        f"Few requests were judged: {judged[0]} where they are fewest, fewer than 60 in 1 of 1 answers."
    )
    assert answer_row(few.answer_rows[0], few.findings)["caveats"] == "few requests judged"
