"""Does `foreserve speculate` measure a checkpoint, say so, and write the same again?"""

import json
import shutil
from dataclasses import fields

import pytest
import torch

from device_model.specs.measured_rates import read_measured
from serving.cli.main import make_parser
from serving.lab.self_speculation import command
from serving.lab.self_speculation.cases import Case, cases
from serving.lab.self_speculation.command import Options, acceptance, speculate
from serving.lab.self_speculation.measure import MeasuredPoint, rate
from serving.lab.self_speculation.record import AcceptanceRecord
from serving.lab.self_speculation.report import shapes
from serving.lab.self_speculation.report.claims import claims
from serving.lab.self_speculation.report.text import rows
from serving.scenario.scenario import BUNDLED_MODEL
from serving.usage_error import UsageError
from tests.serving.lab.self_speculation.models import reference

TOKENIZER = BUNDLED_MODEL


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A random model behind the bundled tokenizer."""
    folder = tmp_path_factory.mktemp("checkpoint")
    model = reference(0, vocab_size=4096, num_hidden_layers=2, tie_word_embeddings=False, initializer_range=0.1)
    model.to(torch.bfloat16).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(TOKENIZER / name, folder)
    return folder


def read(path):
    """What was written."""
    found = json.loads(path.read_text())
    return AcceptanceRecord(found["about"], {name: [*map(point, each)] for name, each in found["figures"].items()})


def point(record):
    of_case = {name: record.pop(name) for name in [field.name for field in fields(Case)] if name in record}
    counts = tuple((accepted, steps) for accepted, steps in record.pop("counts"))
    return MeasuredPoint(Case(**of_case), **record, counts=counts)


def run(*argv):
    args = make_parser().parse_args(["speculate", *map(str, argv)])
    return int(args.run(args))


@pytest.mark.slow
def test_a_quick_run_prints_and_writes_the_same_twice(checkpoint, tmp_path, capsys):
    ours, again = tmp_path / "ours", tmp_path / "again.json"
    options = Options(checkpoint, quick=True, seed=4, prompts=3, new_tokens=5, out=ours, date=None)
    assert speculate(options) == 0
    assert "ELMoE-3D Table 3" in capsys.readouterr().out
    acceptance(options).write(again)
    assert again.read_bytes() == (ours / "acceptance.json").read_bytes()
    assert len(list(ours.glob("*.png"))) == 7
    report = (ours / "report.md").read_text()
    assert "Cassandra Table IV" in report and "### fig17c" in report
    rates = read_measured(ours / "rates.csv")
    assert set(rates.points) == {"hot", "random", "quantised"} and rates.depth == 5
    found = read(ours / "acceptance.json")
    assert rates.alpha("hot", 1.0, 4) == pytest.approx(found.point(family="elastic", bits=4).alpha, abs=1e-4)
    assert found.figures.keys() == cases(2, quick=True).keys()
    assert [p.case for p in found.figures["fig17c"]] == cases(2, quick=True)["fig17c"]
    whole = found.point(family="elastic", bits=8)
    assert whole.alpha == 1 and whole.alpha_se == 0 and whole.sequences == 3
    assert set(json.loads((ours / "acceptance.json").read_text())["about"]) >= {"model", "seed", "threads"}


def test_what_was_measured_is_kept_though_it_cannot_be_printed_and_a_report_is_in_utf_8(tmp_path, monkeypatch):
    found = AcceptanceRecord({"model": "m"}, {"fig17a": []})
    options = Options(tmp_path, quick=True, seed=0, prompts=1, new_tokens=1, out=tmp_path, date=None)
    monkeypatch.setattr(command, "acceptance", lambda _: found)
    with monkeypatch.context() as broken, pytest.raises(BrokenPipeError):
        broken.setattr(command, "print_tables", raising(BrokenPipeError))
        speculate(options)
    assert json.loads((tmp_path / "acceptance.json").read_text())["about"] == {"model": "m"}
    for name, made_text in (("print_tables", None), ("markdown", "±"), ("rates_csv", ""), ("draw", ())):
        monkeypatch.setattr(command, name, lambda *_, text=made_text: text)
    monkeypatch.setattr("io.text_encoding", lambda encoding, *_: encoding or "latin-1")
    assert speculate(options) == 0
    assert (tmp_path / "report.md").read_bytes() == "±".encode()


def raising(error):
    def fail(*_):
        raise error

    return fail


def test_what_is_no_checkpoint_is_refused(tmp_path):
    with pytest.raises(UsageError, match="--token-model"):
        run("--token-model", tmp_path, "--quick")


def test_every_figure_is_in_the_quick_run_and_cases_differ():
    full, quick = cases(4, quick=False), cases(4, quick=True)
    assert all(quick[name] and set(quick[name]) <= set(full[name]) for name in full)
    assert all(len(set(found)) == len(found) for found in full.values())


def made(case, *counts):
    alpha, error = rate(counts, case.depth)
    steps = sum(steps for _, steps in counts)
    size = case.share * (case.bits + 0.5)
    return MeasuredPoint(
        case, alpha, error, alpha * case.depth, error * case.depth, len(counts), steps, 9, size, size, 1, counts
    )


def test_errors_are_over_sequences_and_differences_paired():
    counts = ((10, 5), (20, 5), (15, 5))
    assert rate(counts, 5)[0] == 45 / 75
    assert rate(counts, 5)[1] == pytest.approx((2 * (5 / 75) ** 2 * 3 / 2) ** 0.5)
    one, other = made(Case("elastic"), *counts), made(Case("elastic", bits=3), *((a - 5, steps) for a, steps in counts))
    lead = shapes.difference(one, other)
    assert lead.value == pytest.approx(0.2) and lead.error == pytest.approx(0) and lead.clear
    with pytest.raises(UsageError, match="no draft token"):
        rate(((0, 0),), 5)


def test_a_claim_is_true_or_false_as_the_points_are():
    def pools(hot, random):
        points = [made(Case("elastic", share=0.25, kind="hot"), (hot, 5), (hot, 5))]
        points.append(made(Case("elastic", share=0.25, kind="random"), (random, 5), (random, 5)))
        return claims(AcceptanceRecord({}, {"fig17a": points}))

    assert [claim.holds for claim in pools(12, 10)] == [True, True]
    assert [claim.holds for claim in pools(20, 10)] == [True, False]
    assert [claim.holds for claim in pools(9, 10)] == [False, False]


def test_whether_bits_end_at_four_is_clear_as_far_as_the_one_fall_is_beyond_the_other():
    def bits(*alphas):
        points = [
            made(Case("elastic", bits=b), *((a, 5) for a in each)) for b, each in zip((5, 4, 3), alphas, strict=True)
        ]
        [claim] = claims(AcceptanceRecord({}, {"fig5b": points}))
        return claim

    even, uneven = ((20, 22, 18), (17, 19, 15), (5, 7, 3)), ((20, 22, 24), (15, 20, 15), (8, 11, 10))
    assert (bits(*even).holds, bits(*even).clear) == (True, True)
    # Each fall is beyond its error, and that the last one is larger is not.
    assert (bits(*uneven).holds, bits(*uneven).clear) == (True, False)


def test_drafts_of_which_none_is_accepted_are_told_of():
    def pools(hot, random):
        cases = (Case("elastic", share=0.25, kind="hot"), hot), (Case("elastic", share=0.25, kind="random"), random)
        deep = [made(Case("elastic", depth=depth), (0, 5), (0, 5)) for depth in (3, 5)]
        points = [made(case, (accepted, 5), (accepted, 5)) for case, accepted in cases]
        return AcceptanceRecord({}, {"fig17a": points, "depth": deep})

    assert [claim.figures for claim in claims(pools(5, 0))][1] == "+inf%"
    assert [claim.figures for claim in claims(pools(0, 0))][1] == "+0%"
    assert "+inf% at 0.25" in [row.measured for row in rows(pools(5, 0))]


def test_of_a_single_exit_nothing_is_claimed_on_more_layers():
    found = {"first-layers": [made(Case("first-layers", layers=1), (3, 5), (3, 5))]}
    found["fig17c"] = [made(Case("elastic"), (20, 5), (20, 5))]
    assert [claim.source for claim in claims(AcceptanceRecord({}, found))] == ["M2R2 A.2; ELMoE-3D 2.2"]


def test_a_budget_compares_the_best_of_each_way():
    def at(accepted, **values):
        return made(Case("elastic", **values), (accepted, 5), (accepted, 5))

    both = [at(20, share=0.5, bits=6), at(8, share=0.5, bits=4)]
    bits = [at(10, bits=3), at(25, bits=8)]
    experts = [at(12, share=0.25, bits=8), at(25, bits=8)]
    found = shapes.budgets([*both, at(15, share=0.75, bits=5)], bits, experts)
    # 3 bits of all experts take 3.5 and a quarter of them in 8 bits 2.125; the joint points 2.25, 3.25 and 4.125.
    assert [(b.both.alpha, b.alone.alpha, b.reached) for b in found] == [
        (0.32, 0.48, 1),
        (0.8, 0.48, 1),
        (0.8, 0.48, 2),
    ]
    assert found[-1].lead.value == pytest.approx(0.32)
