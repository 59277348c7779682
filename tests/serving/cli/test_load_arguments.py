"""Does the command line reach the options of a load run, and is what is wrong one sentence?"""

import argparse

import pytest

from serving.cli.arguments.load import GROUPS, add_load, options_from
from serving.load.options import LoadOptions, OptionError, Slos, load_keys
from serving.usage_error import UsageError


def parsed(*argv: str) -> LoadOptions:
    parser = argparse.ArgumentParser()
    add_load(parser)
    return options_from(parser.parse_args(argv))


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--url", "127.0.0.1:8000"], ["--url", "http://HOST:PORT"]),
        (["--url", "http://"], ["--url"]),
        (["--url", "http://host:99999"], ["--url", "99999"]),
        (["--url", "http://[::1"], ["--url"]),
        (["--endpoint", "embeddings"], ["--endpoint", "completions or chat", "embeddings"]),
        (["--arrivals", "bursty"], ["--arrivals", "poisson or constant"]),
        (["--rate", "0"], ["--rate", "above 0"]),
        (["--rate", "nan"], ["--rate"]),
        (["--rate", "inf", "--duration", "3"], ["--rate inf", "--num-requests"]),
        (["--num-requests", "0"], ["--num-requests", "at least 1"]),
        (["--duration", "-1"], ["--duration", "above 0"]),
        (["--max-concurrency", "0"], ["--max-concurrency"]),
        (["--input-len", "0"], ["--input-len"]),
        (["--output-len", "-5"], ["--output-len", "-5"]),
        (["--range-ratio", "1.5"], ["--range-ratio", "from 0 to 1"]),
        (["--seed", "-1"], ["--seed"]),
        (["--temperature", "-0.1"], ["--temperature"]),
        (["--timeout", "inf"], ["--timeout", "finite"]),
        (["--slo-ttft-ms", "0"], ["--slo-ttft-ms", "above 0"]),
        (["--slo-tpot-ms", "nan"], ["--slo-tpot-ms"]),
        (["--extra-body", "[1]"], ["--extra-body", "JSON object"]),
        (["--extra-body", '{"n": 2}'], ["--extra-body", "without n and stream"]),
        (["--api-key", "a\r\nb"], ["--api-key", "printable"]),
    ],
)
def test_a_wrong_option_is_one_sentence_that_names_it(argv, words):
    with pytest.raises(OptionError) as caught:
        parsed(*argv)
    sentence = str(caught.value)
    assert sentence.endswith(".") and "\n" not in sentence
    assert all(word in sentence for word in words)


def test_the_command_line_reaches_the_options(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    options = parsed("--rate", "7", "--duration", "3", "--slo-tpot-ms", "50", "--extra-body", '{"top_k": 1}')
    expected = LoadOptions(rate_per_s=7, duration_s=3, slos=Slos(tpot_s=0.05), extra_body={"top_k": 1}, api_key="k")
    assert options == expected
    assert options.count is None
    assert LoadOptions().count == 100


def test_defaults_are_those_of_python(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert parsed() == LoadOptions()


def test_certificates_are_for_the_metrics_too():
    metrics = ("--metrics-url", "https://there:1/metrics")
    assert parsed("--url", "http://here:1", *metrics, "--ca-file", "ca.pem").trust.ca_file == "ca.pem"
    with pytest.raises(UsageError, match=r"--ca-file ca\.pem has no use with http://here:1"):
        parsed("--url", "http://here:1", "--metrics-url", "http://there:1/metrics", "--ca-file", "ca.pem")


def test_each_option_has_one_place_in_the_help():
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(load_keys())


@pytest.mark.parametrize("name", ["rate", "input-len", "prompts"])
def test_a_workload_file_says_what_options_would(name):
    with pytest.raises(OptionError, match=f"--{name} cannot go with --workload"):
        parsed("--workload", "w.toml", f"--{name}", "1")
