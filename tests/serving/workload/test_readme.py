"""Every workload that we show is one."""

import re
import shutil
from pathlib import Path

import pytest

import serving.workload
from serving.workload import Source, load_workload
from serving.workload.arrivals import KINDS as ARRIVALS
from serving.workload.distributions import KINDS as DISTRIBUTIONS
from serving.workload.traces.formats import FORMATS
from tests.serving.workload.files import served
from tests.serving.workload.test_traces import SAMPLES

README = Path(serving.workload.__file__).with_name("README.md").read_text()
SHOWN = re.findall(r"```toml\n(.*?)```", README, re.S)
EXAMPLES = sorted((Path(__file__).parents[3] / "examples" / "workloads").glob("*.toml"))


@pytest.mark.parametrize("text", SHOWN)
def test_what_the_readme_shows_is_a_workload(tmp_path, text):
    shutil.copytree(SAMPLES, tmp_path, dirs_exist_ok=True)
    (tmp_path / "w.toml").write_text(text)
    assert next(iter(Source(load_workload(tmp_path / "w.toml")))).prompt_tokens >= 1


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_workloads(path):
    asks = [ask for ask, _ in served(Source(load_workload(path, requests=200)))]
    assert len(asks) > 100
    assert len({ask.slo for ask in asks} | {ask.topic for ask in asks}) > 2


def test_there_are_some():
    assert len(SHOWN) >= 5 and len(EXAMPLES) >= 3


def test_the_readme_names_everything_that_there_is():
    for name in (*ARRIVALS, *DISTRIBUTIONS, *FORMATS):
        assert f"`{name}`" in README


def test_the_docstrings_example_is_one(tmp_path):
    text = re.search(r"\n\n((?:    .*\n|\n)+)", serving.workload.__doc__).group(1)
    (tmp_path / "w.toml").write_text(re.sub(r"(?m)^    ", "", text))
    assert next(iter(Source(load_workload(tmp_path / "w.toml")))).output_tokens >= 1
