"""Does a workload's file hold numbers of any size, or refuse them in a sentence, whatever key they stand at?"""

from itertools import islice, pairwise
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from serving.study.point_factory import point_of
from serving.study.spec import load_study
from serving.usage_error import UsageError
from serving.workload import WorkloadError
from serving.workload.source import Source
from tests.serving.workload.files import written

LENGTHS, EVEN = "prompt = 20\noutput = 5\n", "arrivals = { kind = 'constant', rate_per_s = 1 }\n"
FILES = [
    f"{LENGTHS}arrivals = {{ kind = 'poisson', rate_per_s = A }}",
    f"{LENGTHS}arrivals = {{ kind = 'gamma', rate_per_s = A, cv = B }}",
    f"{LENGTHS}arrivals = {{ kind = 'constant', rate_per_s = A }}\nduration_s = B",
    f"{LENGTHS}[arrivals]\nkind = 'diurnal'\nmean_per_s = A\npeak_to_trough = B\nperiod_s = C\npeak_at_s = D",
    f"{LENGTHS}arrivals = {{ kind = 'ramp', from_per_s = A, to_per_s = B, over_s = C, cv = D }}",
    f"{LENGTHS}arrivals = {{ kind = 'steps', steps = [[A, B], [C, D]] }}",
    f"{LENGTHS}sessions.turns = 2\narrivals = {{ kind = 'closed', users = 2, think_s = A, ramp_s = B }}",
    f"{LENGTHS}{EVEN}[sessions]\nturns = 3\nthink_s = {{ kind = 'lognormal', mean = A, cv = B, min = C, max = D }}",
    f"{EVEN}prompt = {{ kind = 'uniform', min = A, max = B }}\noutput = {{ kind = 'normal', mean = C, cv = D }}",
    f"{EVEN}prompt = {{ kind = 'exponential', mean = A, min = B, max = C }}\noutput = D",
    f"{EVEN}prompt = 5\noutput = {{ kind = 'empirical', values = [A, B], shares = [C, D] }}",
    f"{LENGTHS}{EVEN}[[topics]]\nat_s = A\ncs = B\n[[topics]]\nat_s = C\ncs = 1\nlegal = D",
    f"{LENGTHS}{EVEN}agents = {{ calls = 2, result = A, tool_s = B, call = C }}",
]
numbers = st.one_of(
    st.floats(),
    st.floats(1e-9, 1e9),
    st.integers(1, 99),
    st.integers(-(10**30), 10**30),
    st.sampled_from([0.0, 1.0, 1e-300, 5e-324, 1e-9, 1e-6, 1e6, 1e9, 1e12, 1e300, float("inf"), float("nan")]),
)


def filled(text: str, figures: list[float]) -> str:
    for name, figure in zip("ABCD", figures, strict=True):
        text = text.replace(f"= {name}", f"= {figure!r}").replace(f"[{name},", f"[{figure!r},")
        text = text.replace(f", {name}]", f", {figure!r}]")
    return text


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("numbers")


@given(st.sampled_from(FILES), st.lists(numbers, min_size=4, max_size=4))
@example(FILES[4], [1e-300, 1e-300, 1.0, 1.0])
@example(FILES[0], [1e-300, 1.0, 1.0, 1.0])
def test_a_workload_of_any_numbers_is_refused_in_a_sentence_or_asks_in_order(
    folder: Path, text: str, figures: list[float]
) -> None:
    try:
        workload = written(folder, f"seed = 1\nrequests = 12\n{filled(text, figures)}")
    except WorkloadError as error:
        assert str(error).endswith(".") and "\n" not in str(error)
        return
    source, due_s = Source(workload), list[float]()
    for ask in islice(source, 12):
        due_s.append(ask.arrival_s)
        following = source.next_after(ask, ask.arrival_s + 1.0)
        assert following is None or ask.arrival_s < following.arrival_s < 1e16
    assert due_s and all(0 <= at_s < 1e16 for at_s in due_s)
    assert all(one <= other for one, other in pairwise(due_s))


@settings(max_examples=30)
@given(numbers, numbers)
@example(1e-300, 1.0)
@example(1e-6, 1e-6)
def test_a_study_at_any_load_is_refused_in_a_sentence_or_has_its_figures(
    folder: Path, load: float, rate_per_s: float
) -> None:
    path = folder / "study.toml"
    path.write_text(
        f"question = 'sweep'\naxes.load = [{load!r}]\n[workload]\nrequests = 5\nprompt = 20\noutput = 5\n"
        f"arrivals = {{ kind = 'poisson', rate_per_s = {rate_per_s!r} }}\n"
    )
    try:
        study = load_study(path)
    except UsageError as error:
        assert str(error).endswith(".") and "\n" not in str(error)
        return
    summary = point_of(study, {"load": float(load)}, None).run().summary
    assert summary["requests"] == 5 and summary["ttft_p99_s"] > 0
