"""A workload file that is wrong is told in one sentence, with the file, the line, the key and what is allowed."""

import pytest

from serving.workload import WorkloadError, load_workload
from tests.serving.workload.files import LENGTHS, POISSON, written

GOOD = f"requests = 10\n{POISSON}{LENGTHS}"  # 11 lines: 1 requests, 2-4 arrivals, 5-8 prompt, 9-11 output


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", 1, ["`arrivals` is missing", "a table with a `kind`"]),
        ("arrivals = 3", 1, ["`arrivals` is 3", "a table"]),
        (GOOD.replace("poisson", "weibull"), 3, ["`arrivals.kind` is 'weibull'", "poisson or gamma or constant"]),
        (GOOD.replace("rate_per_s = 10", "rate_per_s = 0"), 4, ["`arrivals.rate_per_s` is 0", "above 0"]),
        (GOOD.replace("rate_per_s = 10", "rate = 10"), 2, ["`arrivals.rate_per_s` is missing"]),
        (
            GOOD.replace("rate_per_s = 10", "rate_per_s = 10\ncv = 2"),
            5,
            ["no key `cv` in `arrivals`", "kind, rate_per_s"],
        ),
        (GOOD.replace("requests = 10", "request = 10"), 1, ["no key `request`", "requests, duration_s"]),
        (GOOD.replace("requests = 10", "requests = 1.5"), 1, ["`requests` is 1.5", "whole number of at least 1"]),
        (GOOD.replace("requests = 10", ""), 1, ["`requests` is missing, and `duration_s` too"]),
        (GOOD.replace("requests", "seed = -1\nrequests"), 1, ["`seed` is -1", "at least 0"]),
        (GOOD.replace("mean = 20", "mean = 'long'"), 11, ["`output.mean` is 'long'", "above 0"]),
        (GOOD + "[topics]\ncs = 1\ncooking = 2\n", 14, ["`topics.cooking`", "legal, humanities, cs"]),
        (GOOD + "[[topics]]\nat_s = 0\ncs = 1\n[[topics]]\nat_s = 9\ncs = -1", 17, ["`topics.cs` is -1"]),
        (GOOD + "[sessions]\nturns = 2\nmax_tokens = 0", 14, ["`sessions.max_tokens` is 0", "at least 1"]),
        (GOOD + "[sessions]\nturns = {kind = 'normal', mean = 2}", 13, ["`sessions.turns.cv` is missing"]),
        (GOOD + "[system]\nper = 'topic'", 12, ["`system.tokens` is missing"]),
        (GOOD + "[system]\ntokens = 9\nper = 'user'", 14, ["`system.per` is 'user'", "workload or topic or key"]),
        (GOOD + "[trace]\nfile = 'none.csv'", 5, ["`prompt` is set, and `trace` too", "choose one"]),
        (f"{POISSON}[trace]\nfile = 'none.csv'", 5, ["`trace.file` is 'none.csv'", "there is no"]),
        (f"{POISSON}[trace]\nformat = 'azure'", 4, ["`trace.file` is missing", "the name of a file"]),
        (f"{POISSON}[trace]\nfile = 3", 5, ["`trace.file` is 3", "the name of a file"]),
        (f"{POISSON}[sessions]\nturns = 3\n[trace]\nfile = 'x'", 5, ["`sessions.turns` is set, and `trace` too"]),
        (GOOD.replace("poisson", "trace").replace("rate_per_s = 10", ""), 3, ["no table `trace`"]),
        ("tell_topic = 1\n" + GOOD, 1, ["`tell_topic` is 1", "true or false"]),
        ("[arrivals]\nkind = 'steps'\nsteps = [[1, 2], [3]]", 3, ["`arrivals.steps`", "[[1, 60], [10, 5]]"]),
        ("[arrivals]\nkind = 'steps'\nsteps = [[0, 2]]", 3, ["some rate above 0"]),
        ("[arrivals]\nkind = 'steps'\nsteps = [[1, 0]]", 3, ["`arrivals.steps` is 0", "above 0"]),
        ("[arrivals]\nkind = 'ramp'\nfrom_per_s = 0\nto_per_s = 0", 4, ["`arrivals.to_per_s` is 0", "above 0"]),
        ("[arrivals]\nkind = 'gamma'\nrate_per_s = 1\ncv = 1e-9", 4, ["`arrivals.cv` is 1e-09", "0.01 to 100"]),
        (GOOD + "[sessions]\nturns = 1e9", 13, ["`sessions.turns` is 1000000000.0", "of at most 10000"]),
        (
            GOOD + "[sessions]\nturns = {kind = 'normal', mean = 2, cv = 1e300}",
            13,
            ["`sessions.turns.cv`", "at most 1000"],
        ),
        (GOOD + "[system]\ntokens = 1000000000", 13, ["`system.tokens` is 1000000000", "of at most 16777216"]),
        ("[arrivals]\nkind = 'ramp'\nfrom_per_s = 1e300\nto_per_s = 1", 3, ["`arrivals.from_per_s`", "to 1000000000"]),
        ("[arrivals]\nkind = 'closed'\nusers = 1e300", 3, ["`arrivals.users` is 1e+300", "to 1000000"]),
        ("[arrivals]\nkind = 'closed'\nusers = 1.5", 3, ["`arrivals.users` is 1.5", "whole number"]),
    ],
)
def test_what_is_wrong_is_one_sentence(tmp_path, text, line, words):
    with pytest.raises(WorkloadError) as caught:
        written(tmp_path, text)
    sentence = str(caught.value)
    assert sentence.startswith(f"{tmp_path / 'workload.toml'}, line {line}: ")
    assert sentence.endswith(".") and "\n" not in sentence
    for word in words:
        assert word in sentence


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(WorkloadError, match=r"Cannot read the workload .*none\.toml: No such file"):
        load_workload(tmp_path / "none.toml")
    with pytest.raises(WorkloadError, match=r"workload\.toml is not TOML: .*line 1"):
        written(tmp_path, "requests = \nseed = 1")


def test_what_is_given_counts_instead_of_what_the_file_says(tmp_path):
    path = tmp_path / "w.toml"
    path.write_text(GOOD)
    given = load_workload(path, seed=3, requests=7, duration_s=2.0)
    assert (given.seed, given.requests, given.duration_s) == (3, 7, 2.0)
    path.write_text(GOOD.replace("requests = 10", ""))
    assert load_workload(path, requests=4).requests == 4
