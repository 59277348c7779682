"""Is what no run could do refused before the first one, in the server's words, and nothing else?"""

import shutil
from pathlib import Path

import pytest

from serving.scenario.scenario import BUNDLED_MODEL
from serving.study import preflight
from serving.study.spec import load_study
from serving.usage_error import UsageError

STUDY = """
question = "sweep"
{more}
[workload]
requests = 20
arrivals = {{ kind = "poisson", rate_per_s = 1 }}
prompt = {prompt}
output = 20
"""
ROOM = "Prompt and `max_tokens` are 40020 tokens, and the context has room for 32768."


def said(folder: Path, more: str = "", prompt: str = "100") -> str:
    """Return why a study is refused; "" if it is not."""
    path = folder / "study.toml"
    path.write_text(STUDY.format(more=more, prompt=prompt))
    try:
        load_study(path)
    except UsageError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("more", "prompt", "words"),
    [
        ("", "40000", ("line 4: `workload` has no request that could ever be served", ROOM)),
        ('axes.tau = [2, 4]\naxes.hardware = ["elmoe3d-4gb"]', "40000", ("`workload`", ROOM)),
        ("axes.workload.prompt.value = [100, 40000]", "100", ("line 3: `axes.workload.prompt.value` has 40000", ROOM)),
        ("axes.max_model_len = [4096, 64]", "100", ("`axes.max_model_len` has 64", "the context has room for 64.")),
        ('axes.hardware = ["a6000", "a600"]', "100", ("line 3: `axes.hardware` has 'a600'", "a6000")),
        ("variants.a = {}\nvariants.b = { workload.prompt.value = 40000 }", "9", ("line 4: `variants.b`", ROOM)),
        ("scenario.key_tokens_per_min = 100", "100", ("`workload` has no request", "no more than 100 a minute")),
        ('scenario.api_key_file = "/nowhere"', "9", ("`scenario` cannot be run", "'/nowhere', which cannot be read")),
        ('scenario.hardware = "nvidia"', "100", ("line 3: `scenario` cannot be run", "There is no hardware 'nvidia'")),
        ('scenario.model = "mixtral-8x7b"', "100", ("`scenario` cannot be run: The model does not fit",)),
        (
            'scenario.swap = "always"\naxes.placement = ["topic", "hot"]',
            "100",
            ("`axes.placement` has 'hot'", "only experts that follow topics"),
        ),
        ('axes.faults = [[], ["lost: device=0, at=1"]]', "9", ("`axes.faults` has", "would leave no device")),
        (
            "judge.from_s = 60",
            "9\nduration_s = 60",
            ("line 3: `judge` leaves no request to judge: `from_s` is 60, and", "ends at 60 s (`duration_s`)."),
        ),
        ("judge.from_s = 100\naxes.tau = [2, 4]", "9\nduration_s = 60", ("line 3: `judge` leaves no request",)),
        (
            "judge.from_s = 100\naxes.workload.duration_s = [600, 60]",
            "9",
            ("line 4: `axes.workload.duration_s` has 60: it leaves no request to judge: `from_s` is 100",),
        ),
    ],
)
def test_what_no_run_could_do_is_refused(tmp_path: Path, more: str, prompt: str, words: tuple[str, ...]) -> None:
    sentence = said(tmp_path, more, prompt)
    assert "study.toml, line " in sentence
    for word in words:
        assert word in sentence


@pytest.mark.parametrize(
    ("more", "prompt"),
    [
        # A server refuses the long ones, and serves the others.
        ("", '{ kind = "uniform", min = 100, max = 50000 }'),
        # With one of the hardware the model does, and with one of the models the hardware.
        ('axes.hardware = ["elmoe3d-4gb", "2xh100"]\naxes.model = ["olmoe-1b-7b", "mixtral-8x7b"]', "100"),
        ('axes.kv_tier = ["all", "fast"]\naxes.preemption = ["recompute", "spill"]', "100"),
        # An axis says what the file's own scenario lacks.
        ('scenario.swap = "always"\naxes.placement = ["topic"]', "100"),
        ('axes.swap = ["auto", "always"]\naxes.placement = ["topic", "hot"]', "100"),
        ("judge.from_s = 59", "9\nduration_s = 60"),
        # Of requests by their number nobody knows how long they take to arrive.
        ("judge.from_s = 1000", "9"),
        ("judge.from_s = 100\naxes.workload.duration_s = [600, 900]", "9\nduration_s = 60"),
    ],
)
def test_what_some_combination_can_do_is_left_to_its_points(tmp_path: Path, more: str, prompt: str) -> None:
    assert said(tmp_path, more, prompt) == ""


@pytest.mark.slow
def test_the_search_for_a_run_that_works_is_short(tmp_path: Path) -> None:
    axes = (
        "axes.tau = { from = 1, to = 999 }\naxes.load = { from = 1, to = 999 }\naxes.max_queue = { from = 1, to = 999 }"
    )
    assert said(tmp_path, axes) == ""


def test_also_beyond_the_fleets_that_are_loaded_a_contradiction_is_left_to_its_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "MOST_FLEETS", 4)
    axes = "axes.max_num_seqs = [1, 2, 3, 4]\naxes.kv_tier = ['all', 'fast']\naxes.preemption = ['recompute', 'spill']"
    assert said(tmp_path, axes) == ""
    assert "`axes.swap` has 'always'" in said(tmp_path, f"{axes}\naxes.swap = ['auto', 'always']")


def test_recorded_routes_that_cannot_be_read_are_told_before_the_first_run(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    shutil.copy(BUNDLED_MODEL / "config.json", model)
    traced = f'scenario = {{ residency = "trace", token_model = "{model}" }}'
    assert f"{model / 'routes.npz'} has none; make it: foreserve locality" in said(tmp_path, traced)
    shutil.copy(BUNDLED_MODEL / "routes.npz", model)
    assert not said(tmp_path, traced)
