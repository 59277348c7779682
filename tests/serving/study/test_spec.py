"""What does a study's file say, and what is said of a wrong one?"""

from pathlib import Path

import pytest

import serving.study
from serving.scenario.options import KEYS
from serving.scenario.scenario import Scenario, ScenarioError
from serving.study.measures.cost import COLUMNS as COSTS
from serving.study.measures.targets import PRESETS
from serving.study.point_factory import point_of, points_of
from serving.study.questions import settings_of
from serving.study.spec import StudyError, load_study
from serving.study.summary import COLUMNS
from serving.workload import WorkloadError

EXAMPLES = Path(__file__).parents[3] / "examples" / "studies"
WORKLOAD = """
[workload]
requests = 10
prompt = 10
output = { kind = "exponential", mean = 20 }
arrivals = { kind = "poisson", rate_per_s = 2 }
"""


def write(folder: Path, text: str, workload: str = WORKLOAD) -> Path:
    path = folder / "study.toml"
    path.write_text(text + workload)
    return path


def test_points_are_all_combinations_with_every_seed(tmp_path: Path) -> None:
    text = """
question = "sweep"
seeds = [3, 4]
scenario = { max_num_seqs = 8 }
[axes]
tau = { from = 2, to = 4 }
load = { from = 0.5, to = 2.0, count = 3, log = true }
workload.output.mean = [5, 50]
[variants.small]
hardware = "elmoe3d-4gb"
[variants.big]
devices = 2
workload.prompt.value = 99
"""
    study = load_study(write(tmp_path, text))
    points = [point for settings in settings_of(study) for point in points_of(study, settings)]
    assert len(points) == 2 * 3 * 3 * 2 * 2 == len({point.key for point in points})
    first, last = points[0], points[-1]
    assert first.names == {"variant": "small", "tau": 2, "load": 0.5, "workload.output.mean": 5, "seed": 3}
    assert first.scenario_keys == {"max_num_seqs": 8, "hardware": "elmoe3d-4gb", "tau": 2, "seed": 3}
    assert last.scenario_keys == {"max_num_seqs": 8, "devices": 2, "tau": 4, "seed": 4}
    assert (last.load, last.workload_made().seed) == (2.0, 4)
    assert last.workload.values["prompt"] == {"kind": "constant", "value": 99}
    assert first.workload.values["output"]["mean"] == 5 and first.workload.values["prompt"] == 10


def test_a_point_has_the_same_key_in_any_study(tmp_path: Path) -> None:
    one = load_study(write(tmp_path, 'question = "sweep"\naxes = { tau = [2, 4] }\n'))
    other = load_study(write(tmp_path, 'question = "sweep"\naxes = { tau = [4] }\ntitle = "Another"\n'))
    judged = load_study(write(tmp_path, 'question = "sweep"\naxes = { tau = [4] }\nslo = { ttft_ms = 9 }\n'))
    keys = [point_of(study, {"tau": 4}, None).key for study in (one, other, judged)]
    assert keys[0] == keys[1] != keys[2]
    assert point_of(one, {"tau": 4}, 1).key != keys[0]


def test_files_of_their_own_are_named_from_the_studys_folder(tmp_path: Path) -> None:
    (tmp_path / "node.toml").write_text('hardware = "elmoe3d-4gb"\ndevices = 2\n')
    (tmp_path / "day.toml").write_text(WORKLOAD.replace("[workload]", ""))
    study = load_study(write(tmp_path, 'question = "sweep"\nscenario = "node.toml"\nworkload = "day.toml"\n', ""))
    point = point_of(study, {}, None)
    assert point.scenario_keys == {"hardware": "elmoe3d-4gb", "devices": 2}
    assert point.scenario == Scenario(hardware="elmoe3d-4gb", devices=2)
    assert point.workload_made().requests == 10


def test_a_scenario_that_an_axis_makes_possible_is_one_of_a_study(tmp_path: Path) -> None:
    text = 'question = "sweep"\n[axes]\nswap = ["auto", "always"]\nplacement = ["topic", "hot"]\n'
    study = load_study(write(tmp_path, text))
    possible, not_so = (point_of(study, {"swap": "always", "placement": name}, None) for name in ("topic", "hot"))
    assert possible.scenario == Scenario(swap="always", placement="topic")
    assert possible.key != not_so.key
    with pytest.raises(ScenarioError, match="only experts that follow topics"):
        not_so.run()


def test_a_workloads_file_is_read_once(tmp_path: Path) -> None:
    day = tmp_path / "day.toml"
    day.write_text(WORKLOAD.replace("[workload]", ""))
    study = load_study(write(tmp_path, 'question = "sweep"\nworkload = "day.toml"\n', ""))
    day.unlink()
    assert point_of(study, {}, None).workload_made().requests == 10
    with pytest.raises(WorkloadError, match=r"day\.toml, line 5: `output\.mean` is -1"):
        point_of(study, {"workload.output.mean": -1}, None).workload_made()


@pytest.mark.parametrize("preset", ["server", "interactive"])
def test_mlperfs_targets_are_presets(tmp_path: Path, preset: str) -> None:
    plain = load_study(write(tmp_path, f'question = "sweep"\nslo = "mlperf-llama2-70b-{preset}"\n'))
    fewer = f'question = "sweep"\nslo = {{ preset = "mlperf-llama2-70b-{preset}", share = 0.9 }}\n'
    of_fewer = load_study(write(tmp_path, fewer)).targets
    limits = {"server": (2.0, 0.2), "interactive": (0.45, 0.04)}
    assert plain.targets[:3] == (*limits[preset], 0.99) and of_fewer[:3] == (*limits[preset], 0.9)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('question = "sweeep"\n', ("line 1", "`question`", "sweep or capacity or search or compare")),
        ('question = "sweep"\naxes = { hardwere = ["x"] }\n', ("line 2", "`hardwere`", "hardware", "`load`")),
        ('question = "sweep"\n[axes]\nspeed = [0.5, 1]\n', ("line 3", "`axes.speed`", "a server's alone")),
        ('question = "sweep"\naxes = { http_port = [1, 2] }\n', ("line 2", "`axes.http_port`", "a server's alone")),
        ('question = "sweep"\n[variants.a]\ntext = "vllm"\n', ("line 3", "`variants.a.text`", "a server's alone")),
        (
            'question = "sweep"\n[axes]\ntau = [1, 2]\n[scenario]\nmode = "fixed-ar"\n',
            ("line 5", "`scenario.mode` is 'fixed-ar'", "`tau`"),
        ),
        ('question = "sweep"\n[axes]\ntau = [2]\nload = [1, 1, 2]\n', ("line 4", "`axes.load` has 1.0 twice")),
        (
            'question = "sweep"\n[axes]\ntau = [2]\n[variants.a]\ntau = 3\n',
            ("line 4", "`variants.a` sets `tau`", "an axis too"),
        ),
        ('question = "sweep"\nseeds = []\n', ("line 2", "`seeds` is []", "one at least")),
        ('question = "sweep"\naxes = { tau = [1, "x"] }\n', ("line 2", "`tau`", "'x'", "whole number")),
        ('question = "sweep"\naxes = { tau = [1, -1] }\n', ("line 2", "`tau` is -1", "at least 0")),
        ('question = "sweep"\n[axes]\nmode = ["tau", "art"]\n', ("line 3", "`mode` is 'art'", "fixed-ar")),
        ('question = "sweep"\n[axes]\ndepth = [5, "deep"]\n', ("line 3", "`depth` is 'deep'", "or auto")),
        ('question = "sweep"\n[axes]\nfaults = [["fire: at=3"]]\n', ("line 3", "'fire: at=3'", "stall")),
        (
            'question = "sweep"\n[scenario]\ntau = 1\nswap = "always"\n',
            ("line 4", "`swap` is 'always'", "only experts that follow topics"),
        ),
        ('question = "sweep"\n[scenario]\ndraft = "elastik"\n', ("line 3", "'elastik'", "mean elastic")),
        ('question = "sweep"\nscenario = { router = "dice" }\n', ("line 2", "`router` is 'dice'", "least-loaded")),
        ('question = "sweep"\nvariants = { a = { devices = 0 } }\n', ("line 2", "`devices` is 0", "at least 1")),
        ('question = "sweep"\naxes = { tau = 3 }\n', ("line 2", "`axes.tau`", "a list of values")),
        ('question = "sweep"\naxes = { tau = { from = 3, to = 1 } }\n', ("`axes.tau.to`", "above `from`")),
        ('question = "sweep"\naxes = { load = { from = 0.5, to = 1.5 } }\n', ("`axes.load.count`", "missing")),
        ('question = "sweep"\naxes = { load = { from = 1, to = 8, count = 1 } }\n', ("`axes.load.count`", "from 2 to")),
        ('question = "sweep"\naxes = { load = [0] }\n', ("`axes.load` is 0", "above 0")),
        ('question = "sweep"\naxes = { workload.outptu.mean = [1] }\n', ("`outptu`", "output")),
        ('question = "sweep"\naxes = { workload.output.mean = [-1] }\n', ("`workload.output.mean` is -1",)),
        ('question = "capacity"\naxes = { load = [1] }\n', ("`question`", "no axis")),
        ('question = "capacity"\n', ("line 1", "`question`", "none has any", "`slo`")),
        ('question = "capacity"\nslo = { share = 0.9 }\n', ("line 1", "`question`", "none has any", "`slo`")),
        ('question = "capacity"\ncapacity = { attainment = 2 }\n', ("`capacity.attainment` is 2", "share")),
        ('question = "search"\n', ("`search` is missing",)),
        ('question = "search"\nsearch = { minimise = "j_per_token" }\n', ("`axes`", "nothing to search")),
        ('question = "search"\nsearch = { minimise = "joy" }\n', ("`search.minimise` is 'joy'", "j_per_token")),
        (
            'question = "search"\nsearch = { minimise = "joules", where = ["tpot < 1"] }\n',
            ("`search.where`", "tpot_p99_s <= 0.05"),
        ),
        ('question = "compare"\n', ("`variants`", "fewer than two")),
        ('question = "sweep"\nslo = "mlperf"\n', ("`slo` is 'mlperf'", "mlperf-llama2-70b-server")),
        ('question = "sweep"\nslo = { ttft = 1 }\n', ("`ttft`", "ttft_ms", "ttft_p95_ms")),
        ('question = "sweep"\nslo = { ttft_p95_ms = 0 }\n', ("`slo.ttft_p95_ms` is 0", "above 0")),
        ('question = "sweep"\nslo = { ttft_p0_ms = 9 }\n', ("`ttft_p0_ms`", "ttft_p95_ms")),
        ('question = "sweep"\npercentiles = [100]\n', ("`percentiles` is 100", "below 100")),
        ('question = "sweep"\npercentiles = [99.99999]\n', ("`percentiles` is 99.99999", "four decimals")),
        ('question = "sweep"\npercentiles = [0.00001]\n', ("`percentiles` is 1e-05", "four decimals")),
        ('question = "sweep"\ncost = { node = 1 }\n', ("`node`", "node_price")),
        ('question = "sweep"\ncost = { watts = 1 }\n', ("`cost` says no price", "kwh_price")),
        ('question = "sweep"\ncost.device_price = { elmoe3d-8gb = 0 }\n', ("`cost` says no price", "kwh_price")),
        (
            'question = "search"\nsearch = { minimise = "cost_per_million_tokens" }\naxes = { tau = [1, 2] }\n',
            ("`search` is about `cost_per_million_tokens`", "no table `cost`"),
        ),
        ('question = "sweep"\nseeds = [1.5]\n', ("`seeds` is 1.5", "whole number")),
        ('question = "sweep"\nscenario = { tau = "x" }\n', ("`tau` is 'x'",)),
        ('question = "sweep"\naxes = { tau = [4, 2, 4] }\n', ("`axes.tau`", "has 4 twice")),
        ('question = "sweep"\nseeds = [1, 1]\n', ("`seeds`", "has 1 twice")),
        (
            'question = "sweep"\naxes = { tau = [4, 2] }\nvariants = { a = { tau = 1 } }\n',
            ("`variants.a`", "sets `tau`", "an axis too"),
        ),
        ('question = "sweep"\njudge = { from_s = 9, to_s = 8 }\n', ("`judge.to_s` is 8", "after `from_s`")),
        (
            'question = "search"\nsearch = { minimise = "joules", where = ["ttft_p99_s <= 1e"] }\n',
            ("`search.where`",),
        ),
        ('question = "sweep"\nscenario = "none.toml"\n', ("`scenario`", "none.toml")),
    ],
)
def test_a_wrong_file_is_told_with_its_key(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    with pytest.raises((StudyError, ScenarioError, WorkloadError)) as error:
        load_study(write(tmp_path, text))
    assert "study.toml, line " in str(error.value)
    for word in words:
        assert word in str(error.value)


def test_the_examples_are_studies_of_three_kinds() -> None:
    studies = [load_study(path) for path in sorted(EXAMPLES.glob("*.toml"))]
    assert {type(study.question).__name__ for study in studies} >= {"Capacity", "Search", "Compare"}


def test_the_readme_tells_of_every_column_and_preset_and_its_studies_can_be_run(tmp_path: Path) -> None:
    text = (Path(serving.study.__file__).parent / "README.md").read_text()
    for name, what in (COLUMNS | COSTS).items():
        assert f"`{name}`" in text and what in text
    for name, targets in PRESETS.items():
        short = f"`-{name.rpartition('-')[2]}`"
        assert (f"`{name}`" in text or short in text) and f"{targets.ttft_s * 1000:g}/{targets.tpot_s * 1000:g}" in text
    blocks = text.split("```toml\n")[1:]
    costing = blocks[0].replace("[axes]", blocks[1].partition("```")[0] + "[axes]", 1)
    study = write(tmp_path, costing.partition("```")[0], "")
    assert len(list(settings_of(load_study(study)))) == 8 and load_study(study).cost
    for kind, block in zip(("capacity", "search"), blocks[2:], strict=True):
        body = (
            f'question = "{kind}"\nslo.ttft_ms = 1000\n'
            + block.partition("```")[0]
            + ("[axes]\ntau = [1, 2]\n" if kind == "search" else "")
        )
        assert load_study(write(tmp_path, body)).question


@pytest.mark.parametrize(
    "text",
    [
        'scenario.default_slo = "interactive"\n',
        'axes.default_slo = ["interactive", "batch"]\n',
        "variants.a = { workload.slo.interactive = 1.0 }\nvariants.b = { workload.slo.batch = 1.0 }\n",
    ],
)
def test_a_capacity_is_by_the_classes_that_requests_name(tmp_path: Path, text: str) -> None:
    assert load_study(write(tmp_path, f'question = "capacity"\n{text}'))


@pytest.mark.parametrize(("trace", "names"), [("azure_2023.csv", False), ("own.csv", True)])
def test_a_trace_that_can_name_no_class_has_no_capacity_without_targets(
    tmp_path: Path, trace: str, names: bool
) -> None:
    samples = Path(__file__).parents[1] / "workload" / "samples"
    said = f'[workload]\narrivals = {{ kind = "trace" }}\ntrace = {{ file = "{samples / trace}" }}\n'
    (path := tmp_path / "study.toml").write_text(f'question = "capacity"\n{said}')
    if names:
        assert load_study(path)
    else:
        with pytest.raises(StudyError, match="none has any"):
            load_study(path)


def test_what_a_server_alone_has_is_allowed_in_a_scenario_but_not_named_to_be_varied(tmp_path: Path) -> None:
    assert load_study(write(tmp_path, 'question = "sweep"\nscenario.speed = 0.5\n')).scenario == {"speed": 0.5}
    with pytest.raises(StudyError) as caught:
        load_study(write(tmp_path, 'question = "sweep"\naxes.spped = [1]\n'))
    allowed = str(caught.value).partition("allowed are ")[2]
    assert "tau" in allowed and not any(f" {name}," in allowed for name in ("speed", "http_port", "text"))


def test_a_law_that_is_asked_for_takes_the_place_of_the_files(tmp_path: Path) -> None:
    path = write(tmp_path, 'question = "sweep"\n[scenario]\nlaw = "published"\n')
    assert load_study(path).scenario["law"] == "published"
    assert load_study(path, law="realisable").scenario["law"] == "realisable"
    varied = write(tmp_path, 'question = "sweep"\naxes.law = ["realisable", "published"]\n')
    with pytest.raises(StudyError, match=r"is asked under the law published .--law., and the study"):
        load_study(varied, law="published")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('question = "sweep"\naxes.seed = [0, 1]\n', ("axes.seed", "is given by `seeds`")),
        ('question = "sweep"\naxes."workload.seed" = [0, 1]\n', ("axes.workload.seed", "is given by `seeds`")),
        ('question = "sweep"\nseeds = [0, 1]\nvariants.a.seed = 3\n', ("variants.a.seed", "choose one")),
        (
            'question = "search"\nsearch.minimise = "cost_per_user_month"\ncost.node_price = 9\naxes.tau = [1, 2]\n',
            ("search", "`cost_per_user_month`, and only closed loops have users"),
        ),
    ],
)
def test_what_cannot_be_told_together_is_refused(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    with pytest.raises(StudyError) as error:
        load_study(write(tmp_path, text))
    assert all(word in str(error.value) for word in words)


@pytest.mark.parametrize(
    "named", ["axes.default_slo = ['interactive', 'batch']", "variants.a.workload.slo.interactive = 1"]
)
def test_targets_may_be_named_by_what_is_varied(tmp_path: Path, named: str) -> None:
    study = load_study(write(tmp_path, f'question = "sweep"\n{named}\n'))
    assert study.has_targets and study.asked_share


def test_no_figure_has_the_name_of_a_setting() -> None:
    """A column would have one in place of the other."""
    assert not {*COLUMNS, *COSTS} & {*KEYS, "load", "seed", "variant"}


def test_what_each_variant_says_of_the_workload_an_axis_need_not(tmp_path: Path) -> None:
    text = """
question = "capacity"
slo.ttft_ms = 900
axes.workload.output.mean = [5, 50]
variants.even.workload.arrivals = { kind = "constant", rate_per_s = 2 }
variants.bursty.workload.arrivals = { kind = "gamma", rate_per_s = 2, cv = 3 }
"""
    bare = "[workload]\nrequests = 10\nprompt = 10\noutput.kind = 'exponential'\n"
    assert len(list(settings_of(load_study(write(tmp_path, text, bare))))) == 4
    with pytest.raises(WorkloadError, match=r"`workload\.output\.mean` is -1"):
        load_study(write(tmp_path, text.replace("50]", "-1]"), bare))


def test_capacities_of_users_and_of_requests_a_second_are_not_asked_together(tmp_path: Path) -> None:
    text = """
question = "capacity"
slo.ttft_ms = 900
variants.a.workload.arrivals = { kind = "closed", users = 2 }
variants.b.workload.arrivals = { kind = "poisson", rate_per_s = 2 }
"""
    with pytest.raises(StudyError, match=r"line 2: `question`.* closed loops beside open ones"):
        load_study(write(tmp_path, text, "[workload]\nrequests = 10\nprompt = 10\noutput = 9\n"))
