"""Is hardware compared on the same requests, by figures that add up, and is the answer what they say?"""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.specs.hardware import TierNames
from serving.cli.main import make_parser
from serving.study import Results, load_study
from serving.study.measures.percentiles import Percentile, PercentileTarget
from serving.study.measures.targets import Targets
from serving.study.runner import run_study
from serving.study.side_by_side.comparison import FIGURES, PARTS, HardwareFigures, compared
from serving.study.side_by_side.hardware_study import SideBySide, hardware_study
from serving.study.side_by_side.output import energy_table, figures_table
from serving.study.side_by_side.picture import write_picture
from serving.study.side_by_side.verdict import sentences
from serving.usage_error import UsageError
from tests.examples import examples

HARDWARE = ("elmoe3d-8gb", "stratum-s", "a6000")
WORKLOAD = """
requests = 24
prompt = 80
output = 30
arrivals = { kind = "poisson", rate_per_s = 4 }
"""
TOPICS = "[topics]\nlegal = 0.5\nmath = 0.5\n"


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    path = tmp_path / "workload.toml"
    path.write_text(WORKLOAD + TOPICS)
    return path


def ran(asked: SideBySide, out: Path) -> Results:
    return run_study(hardware_study(asked, out), out)


def test_all_serve_the_same_requests_and_joules_add_up(workload: Path, tmp_path: Path) -> None:
    results = ran(SideBySide(HARDWARE, workload, "olmoe-1b-7b", seeds=(1, 2)), tmp_path / "out")
    found = compared(results)
    assert [each.hardware for each in found] == list(HARDWARE) and not results.failed
    for each in found:
        rows = [finding.row for finding in results.findings if finding.point.names["variant"] == each.hardware]
        assert len(rows) == 2
        assert each["requests"] == 24 and each["refused"] == 0
        assert sum(each.part_j) == pytest.approx(each["j_per_token"]) == pytest.approx(sum(each.energy.values()))
        tokens = sum(row["output_tokens"] for row in rows)
        assert each["j_per_token"] == pytest.approx(sum(row["joules"] for row in rows) / tokens)
        assert set(each.told) > {*FIGURES, "j_per_token_by_component"}
    energies = {each.hardware: each.energy for each in found}
    assert energies["stratum-s"]["mono3d"] > energies["stratum-s"]["interposer"] > 0
    assert {"hb", "lpddr"} < set(energies["elmoe3d-8gb"]) and {"hbm", "host"} < set(energies["a6000"])


def test_only_a_system_that_its_paper_has_follow_topics_does_and_only_if_there_are_any(
    workload: Path, tmp_path: Path
) -> None:
    following, *others = compared(ran(SideBySide(("stratum-s", "elmoe3d-8gb"), workload, "olmoe-1b-7b"), tmp_path))
    assert following["swaps"] > 0 and following["swap_s"] > 0 and following["swap_joules"] > 0
    assert [each["swaps"] for each in others] == [0]
    workload.write_text(WORKLOAD)
    study = hardware_study(SideBySide(("stratum-s", "elmoe3d-8gb"), workload, "olmoe-1b-7b"), tmp_path)
    assert study.variants == {name: {"hardware": name} for name in ("stratum-s", "elmoe3d-8gb")}


@pytest.mark.parametrize(
    "arrivals", ['kind = "trace"', 'kind = "closed", users = 2', 'kind = "poisson", rate_per_s = 4']
)
@pytest.mark.parametrize(("topics", "follows"), [(["", "legal", ""], {"placement": "topic"}), ([""] * 3, {})])
def test_topics_may_be_those_of_a_trace(
    workload: Path, tmp_path: Path, arrivals: str, topics: list[str], follows: dict[str, str]
) -> None:
    rows = [f"{second},80,30,{topic}" for second, topic in enumerate(topics)]
    (tmp_path / "rows.csv").write_text("\n".join(["arrival_s,prompt_tokens,output_tokens,topic", *rows]))
    workload.write_text(f'requests = 3\narrivals = {{ {arrivals} }}\ntrace.file = "rows.csv"\n')
    study = hardware_study(SideBySide(("stratum-s", "elmoe3d-8gb"), workload, "olmoe-1b-7b"), tmp_path)
    assert study.variants["stratum-s"] == {"hardware": "stratum-s"} | follows
    assert study.variants["elmoe3d-8gb"] == {"hardware": "elmoe3d-8gb"}


@pytest.mark.slow
def test_what_it_leaves_can_be_run_again_as_a_study(workload: Path, tmp_path: Path) -> None:
    results = ran(SideBySide(("stratum-s", "a6000"), workload, "olmoe-1b-7b", devices=2, seeds=(3,)), tmp_path / "out")
    again = load_study(tmp_path / "out" / "study.toml")
    assert again.variants == results.study.variants and again.targets == results.study.targets
    assert again.seeds == (3,) and again.scenario == {"model": "olmoe-1b-7b", "devices": 2}
    kept = run_study(again, tmp_path / "out")
    assert kept.findings == results.findings


P95 = PercentileTarget(Percentile("ttft", 95.0), 0.5)
P99_9 = PercentileTarget(Percentile("itl", 99.9), 0.0123)


@pytest.mark.parametrize(
    "targets",
    [
        Targets(own=True),
        Targets(1234.5678, 0.07),
        Targets(0.5, share=0.9),
        Targets(share=0.9, own=True),
        Targets(1.0, 0.05, 0.9, percentiles=(P95, P99_9)),
        Targets(1.0, percentiles=(P95,)),
        Targets(0.5, share=0.0, percentiles=(P99_9, P95)),  # A percentile's limit is what goodput is counted by.
    ],
)
def test_targets_are_those_that_were_asked_for(workload: Path, tmp_path: Path, targets: Targets) -> None:
    study = hardware_study(SideBySide(("stratum-s", "a6000"), workload, "olmoe-1b-7b", targets=targets), tmp_path)
    assert study.targets == targets


def test_where_only_percentiles_are_asked_no_share_is(workload: Path, tmp_path: Path) -> None:
    asked = SideBySide(("stratum-s", "a6000"), workload, "olmoe-1b-7b", targets=Targets(percentiles=(P95,)))
    assert hardware_study(asked, tmp_path).needs == {"ttft_p95_attainment": 0.95}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"hardware": ("a6000",)}, "only a6000 to compare"),
        ({"hardware": ("a6000", "a6000")}, "a6000 is named twice"),
        ({"hardware": ("a6000", "b6000")}, r"no hardware 'b6000' \(did you mean a6000\?\); those that exist are"),
        ({"model": "gpt-9"}, "no model 'gpt-9'; those that exist are"),
        ({"model": "mixtral-8x7b"}, "a6000 cannot serve mixtral-8x7b: The model does not fit"),
        ({"seeds": (1, 2, 1)}, "seed 1 is named twice"),
        (
            {"seeds": (2**63,)},
            r"^--seeds is 9223372036854775808: it must be a whole number from 0 to 9223372036854775807",
        ),
        ({"devices": 257}, "^--devices: `devices` is 257: it must be at most 256"),
        ({"workload": Path("no-such.toml")}, "Cannot read the workload no-such.toml"),
    ],
    ids=lambda each: "" if isinstance(each, str) else next(iter(each)),
)
def test_what_cannot_be_compared_is_refused_in_a_sentence(
    workload: Path, tmp_path: Path, changes: dict[str, object], says: str
) -> None:
    asked = SideBySide(("2xh100", "a6000"), workload, "olmoe-1b-7b")._replace(**changes)
    with pytest.raises(ValueError, match=says):
        hardware_study(asked, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_workload_may_lie_in_a_folder_of_any_name(workload: Path, tmp_path: Path) -> None:
    folder = tmp_path / 'so "called" \U0001f600'
    folder.mkdir()
    study = hardware_study(SideBySide(HARDWARE[:2], workload.rename(folder / "w.toml"), "olmoe-1b-7b"), tmp_path)
    assert study.workload.path == folder / "w.toml"


def test_a_workload_that_is_none_is_refused_with_its_line(workload: Path, tmp_path: Path) -> None:
    workload.write_text(WORKLOAD + "prompts = 3\n")
    with pytest.raises(UsageError, match=r"workload.toml, line 6: there is no key `prompts`"):
        hardware_study(SideBySide(HARDWARE, workload, "olmoe-1b-7b"), tmp_path)


def test_what_no_hardware_could_serve_is_told_of_the_option_and_not_of_a_file_that_nobody_wrote(
    workload: Path, tmp_path: Path
) -> None:
    workload.write_text(WORKLOAD.replace("prompt = 80", "prompt = 100000"))
    with pytest.raises(UsageError, match=rf"^--workload {workload} has no request that could ever be served: ") as said:
        hardware_study(SideBySide(HARDWARE, workload, "olmoe-1b-7b"), tmp_path / "out")
    assert "study.toml" not in str(said.value)


def figures(hardware: str, **values: float) -> HardwareFigures:
    row = dict.fromkeys(FIGURES, 0.5) | {"requests": 100, "refused": 0} | values
    part_j = tuple(row["j_per_token"] / len(PARTS) for _ in PARTS)
    return HardwareFigures(hardware, "system", TierNames("fast", "slow"), row, part_j)


@examples(60)
@given(e2e_s=st.lists(st.floats(0.001, 100.0), min_size=2, max_size=4), data=st.data())
def test_the_answer_names_the_least_and_by_how_much(e2e_s: list[float], data: st.DataObject) -> None:
    joules = data.draw(st.lists(st.floats(1e-4, 10.0), min_size=len(e2e_s), max_size=len(e2e_s)))
    names = [f"hardware-{index}" for index in range(len(e2e_s))]
    found = [
        figures(name, e2e_mean_s=seconds, j_per_token=j) for name, seconds, j in zip(names, e2e_s, joules, strict=True)
    ]
    fastest, thriftiest = sentences(found, asked=False)
    for sentence, values in ((fastest, e2e_s), (thriftiest, joules)):
        first, second, *_ = sorted(zip(values, names, strict=True), key=lambda each: each[0])
        assert sentence.startswith(first[1]) and second[1] in sentence
        ratio = second[0] / first[0]
        if "alike" in sentence:
            assert ratio == pytest.approx(1.0, abs=0.006)
        else:
            told = float(sentence.rpartition(" times ")[0].rpartition("takes ")[2])
            assert told == pytest.approx(ratio, rel=0.06)


def test_who_turns_requests_away_is_not_the_fastest_for_it() -> None:
    quick, patient = figures("quick", e2e_mean_s=0.1, refused=90), figures("patient", e2e_mean_s=3.0)
    first, *_, refusing, within = sentences([quick, patient], asked=True)
    assert first.startswith("patient turns away the fewest requests: 3.0") and "turns away 90 of 100" in refusing
    assert "fastest" not in first and "times" not in first
    assert within == "Requests within both targets: quick 50 %, patient 50 %."


def test_of_hardware_that_serves_nobody_none_is_fast_or_thrifty() -> None:
    nothing = {"refused": 100, "e2e_mean_s": 0.0, "j_per_token": 0.0, "tokens_per_s": 0.0}
    one, other = figures("one", **nothing), figures("other", **nothing)
    first, *rest = sentences([one, other], asked=False)
    assert first.startswith("None of them serves anybody") and all("turns away 100" in each for each in rest)
    first, *_ = sentences([one, figures("patient", refused=100, e2e_mean_s=3.0)], asked=False)
    assert first.startswith("patient turns away the fewest requests: 3.0")


def test_tables_and_picture_have_all_hardware(workload: Path, tmp_path: Path) -> None:
    found = compared(ran(SideBySide(("stratum-s", "a6000"), workload, "olmoe-1b-7b"), tmp_path / "out"))
    energy = energy_table(found)
    assert [row[0] for row in figures_table(found, asked=True).rows] == ["stratum-s", "a6000"]
    assert energy.rows[0][3].startswith("mono3d ") and energy.rows[1][2].startswith("host ")
    pictures = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        [path] = write_picture(found, "a title", tmp_path / name)
        pictures.append(path.read_bytes())
    assert pictures[0] == pictures[1] and pictures[0].startswith(b"\x89PNG")


@pytest.fixture
def command(workload: Path, tmp_path: Path) -> Callable[..., int]:
    def run(*options: str) -> int:
        names = ["stratum-s", "a6000", "--model", "olmoe-1b-7b", "--workload", str(workload)]
        args = make_parser().parse_args(["compare", *names, "--out", str(tmp_path / "out"), *options])
        code: int = args.run(args)
        return code

    return run


@pytest.mark.slow
def test_the_command_prints_json_and_writes_a_folder(
    command: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("--json", "--slo-ttft-ms", "500", "--slo-tpot-ms", "1e9", "--seeds", "0", "1") == 0
    told = json.loads(capsys.readouterr().out)
    assert [each["hardware"] for each in told["hardware"]] == ["stratum-s", "a6000"]
    assert told["answer"][-2].startswith("Requests within both targets")
    assert told["answer"][-1].startswith("Few requests were judged: 48")
    assert [each["caveats"] for each in told["hardware"]] == ["few requests judged"] * 2
    written = {"comparison.csv", "comparison.png", "study.toml", "report.html", "points.csv"}
    assert written < set(os.listdir(tmp_path / "out"))
    [head, *rows] = (tmp_path / "out" / "comparison.csv").read_text().splitlines()
    assert len(rows) == 2 and "fast_j_per_token" in head.split(",") and "mono3d" in rows[0].split(",")
    assert command() == 0
    printed = capsys.readouterr().out
    assert "stratum-s is the fastest" in printed and "caveats" not in printed
    assert command("--slo-ttft-ms", "500") == 0
    assert capsys.readouterr().out.count("few requests judged") == 2


def test_the_law_is_that_of_hardware_that_has_one(tmp_path: Path) -> None:
    workload = tmp_path / "load.toml"
    workload.write_text(WORKLOAD)
    asked = SideBySide(("elmoe3d-8gb", "stratum-s"), workload, "olmoe-1b-7b", law="published")
    variants = hardware_study(asked, tmp_path).variants
    assert variants["elmoe3d-8gb"]["law"] == "published" and "law" not in variants["stratum-s"]
    with pytest.raises(UsageError, match=r"no hardware here obeys it; allowed is some of elmoe3d, hb_xpu, .* or xpu"):
        hardware_study(asked._replace(hardware=("stratum-s", "a6000")), tmp_path)
