"""Is the name that was meant named, and none where nothing is near?"""

import string
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.load import load_model
from device_model.specs.hardware_file import load_hardware
from device_model.specs.spec import DeviceError
from serving.cli.arguments.scenario import scenario_of
from serving.cli.main import make_parser
from serving.load.options import LoadOptions
from serving.nearest_name import meant, misspelt
from serving.policies.routing import parse_router
from serving.policies.step_options import StepOptions
from serving.scenario.faults import parse_fault
from serving.scenario.options import KEYS
from serving.study import load_study
from serving.topics.labelled_prompts import read_labelled
from serving.usage_error import UsageError
from tests.examples import examples

WORKLOAD = """
[workload]
requests = 5
prompt = 10
output = 10
arrivals = { kind = "poisson", rate_per_s = 1 }
"""
STUDY = f"""
question = "sweep"
slo = {{ ttft_p95_ms = 500 }}
[axes]
load = [1]
{WORKLOAD}"""


@given(st.sampled_from([key for key in KEYS if len(key) > 4]), st.data())
@examples(100)
def test_a_name_with_one_letter_wrong_is_found(key: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(key) - 1))
    wrong = key[:place] + data.draw(st.sampled_from(string.ascii_lowercase)) + key[place + 1 :]
    near = meant(wrong, KEYS)
    assert near.startswith(" (did you mean `") and near.endswith("`?)")
    found = near.removeprefix(" (did you mean `").removesuffix("`?)")
    # Another name may be as near: `hardware_a` for `hardware_b`.
    assert found == key or sum(one != other for one, other in zip(found, wrong, strict=True)) <= 1


@given(st.sampled_from(["slo", "tau", "load", "mode", "swap", "chat"]), st.data())
@examples(60)
def test_a_letter_more_or_less_or_two_turned_round_are_found_in_short_names(name: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(name) - 2))
    head, one, other, tail = name[:place], name[place], name[place + 1], name[place + 2 :]
    more = data.draw(st.sampled_from(string.ascii_lowercase))
    for wrong in (head + other + one + tail, head + other + tail, head + one + more + other + tail):
        assert meant(wrong, [name, "a-name-that-is-far", "figures"]) == f" (did you mean `{name}`?)"


@pytest.mark.parametrize("name", ["zzzz", "", "--", "banana", "b", "x" * 100_000, "slot machine"])
def test_nothing_is_meant_by_what_is_like_nothing(name: str) -> None:
    assert meant(name, KEYS) == meant(name, ["sla", "tpu", "2", ""]) == ""


def test_a_word_of_a_name_of_several_stands_for_it() -> None:
    modes = ("cost", "fixed-ar", "fixed-sd", "tau")
    assert meant("ar", modes) == " (did you mean `fixed-ar`?)" and meant("SD", modes) == " (did you mean `fixed-sd`?)"
    assert meant("8gb", ["elmoe3d-4gb", "elmoe3d-8gb"]) == " (did you mean `elmoe3d-8gb`?)"
    assert meant("fixed", modes) == " (did you mean `fixed-ar` or `fixed-sd`?)"


def test_other_digits_and_another_letter_in_three_are_other_names() -> None:
    assert meant("tp2", ["tp4"]) == meant("tau", ["tab"]) == meant(5, ["5"]) == ""


@pytest.mark.parametrize(
    ("name", "allowed", "told"),
    [
        ("qwen3", ["qwen2.5-32b", "qwen3-30b-a3b"], "`qwen3-30b-a3b`"),
        ("stratum", ["stratum-s", "npu", "stratum-l"], "`stratum-s` or `stratum-l`"),
        ("fixed", ["fixed-ar", "fixed-sd", "tau"], "`fixed-ar` or `fixed-sd`"),
        ("a-1", ["a-11x", "a-12x", "a-13x", "a-14x"], "`a-11x`, `a-12x` or `a-13x`"),
        ("--max_num_seq", ["--max-num-seqs", "--max-num-seqs-of-all"], "`--max-num-seqs`"),
        ("Poisson", ["poisson", "constant"], "`poisson`"),
    ],
)
def test_names_that_begin_so_are_meant(name: str, allowed: list[str], told: str) -> None:
    assert meant(name, allowed) == f" (did you mean {told}?)"


def test_a_missing_name_may_be_one_that_is_given() -> None:
    assert misspelt("kind", ["knid", "rate"]) == " (is `knid` it?)"
    assert misspelt("to_per_s", ["from_per_s"]) == ""


def of_study(old: str, new: str) -> Callable[[Path], object]:
    def read(folder: Path) -> object:
        assert old in STUDY
        (folder / "study.toml").write_text(STUDY.replace(old, new))
        return load_study(folder / "study.toml")

    return read


def of_options(*options: str) -> Callable[[Path], object]:
    return lambda folder: scenario_of(make_parser().parse_args(["serve", *options]))


def of_prompts(text: str) -> Callable[[Path], object]:
    def read(folder: Path) -> object:
        (folder / "prompts.tsv").write_text(text)
        return read_labelled(folder / "prompts.tsv")

    return read


SEARCH = 'question = "search"\n[search]\nminimise = "j_per_tokn"\n[axes]\ntau = [1, 2]\n' + WORKLOAD


@pytest.mark.parametrize(
    ("read", "told"),
    [
        (of_study("slo =", "sol ="), "`slo`"),
        (of_study("load =", "laod ="), "`load`"),
        (of_study("ttft_p95", "ttfp_p95"), "`ttft_p95_ms`"),
        (of_study('"sweep"', '"swep"'), "`sweep`"),
        (of_study("{ ttft_p95_ms = 500 }", '"mlperf-mixtral-8x7b-servr"'), "`mlperf-mixtral-8x7b-server`"),
        (of_study('"poisson"', '"poison"'), "`poisson`"),
        (of_study("load = [1]", 'mode = ["tau", "fixd-sd"]'), "`fixed-sd`"),
        (of_study(STUDY, SEARCH), "`j_per_token`"),
        (of_study(STUDY, SEARCH.replace("j_per_tokn", "ttfp_p75_s")), "`ttft_p75_s`"),
        (of_study(STUDY, SEARCH.replace("j_per_tokn", 'j_per_token"\nwhere = ["goodput_pre_s >= 1"]\n#')), "`goodput"),
        (of_study("prompt = 10", "prompt = 10\ntopics = { legl = 1 }"), "`legal`"),
        (of_options("--mode", "fixd-sd"), "`fixed-sd`"),
        (of_options("--batching", "topic"), "`topic-aware`"),
        (of_options("--router", "prefix"), "`prefix-affine`"),
        (of_options("--default-slo", "chta", "--slo", "chat: ttft_ms=1"), "`chat`"),
        (lambda folder: LoadOptions(endpoint="chta"), "`chat`"),
        (lambda folder: parse_fault("stal: for=1", "A fault"), "`stall`"),
        (lambda folder: parse_router("scroe"), "`score`"),
        (lambda folder: StepOptions(None, "measurd"), "`measured`"),  # type: ignore[arg-type]
        (lambda folder: load_model("qwen3"), "qwen3-30b-a3b?"),
        (lambda folder: load_hardware("elmoe3d-88gb"), "elmoe3d-8gb?"),
        (of_prompts("legl\tWhat is a tort?"), "`legal`"),
    ],
)
def test_what_is_read_tells_it(read: Callable[[Path], object], told: str, tmp_path: Path) -> None:
    with pytest.raises((UsageError, DeviceError)) as refused:
        read(tmp_path)
    assert f"(did you mean {told}" in str(refused.value)


def test_a_size_that_there_is_not_is_none_that_is_misspelt() -> None:
    with pytest.raises(DeviceError) as refused:
        load_hardware("elmoe3d-9gb")
    assert "did you mean" not in str(refused.value)


def test_words_that_are_turned_round_are_near() -> None:
    assert meant("seqs_max_num", ["max_num_seqs", "tau"]) == " (did you mean `max_num_seqs`?)"
