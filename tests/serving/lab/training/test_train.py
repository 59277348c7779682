"""Does training learn, the same each time, and keep what it has learnt when it is stopped?"""

import json
import threading
from dataclasses import replace
from hashlib import sha256
from itertools import islice
from random import Random

import pytest
import torch
from transformers import AutoTokenizer

from serving.lab.corpus.corpus import Document, documents
from serving.lab.corpus.parts import DialogueTurn
from serving.lab.training import train as module
from serving.lab.training.batches import ASKED, batches, encode, segments
from serving.lab.training.card.curve import one_after_the_other
from serving.lab.training.card.runs import training_of
from serving.lab.training.checkpoint import CHECKPOINT, save_checkpoint
from serving.lab.training.command import for_cpu
from serving.lab.training.export import from_hf, load_model
from serving.lab.training.optimiser import orthogonal
from serving.lab.training.progress import LOG, TrainingProgress, logged_runs
from serving.lab.training.settings import Settings, is_long, rate_at
from serving.lab.training.shape import ModelShape
from serving.lab.training.start import from_model
from serving.lab.training.tokenizer import bpe, save_tokenizer
from serving.lab.training.train import train
from serving.lab.training.training_run import TrainingRun
from serving.topics.names import NAMES
from serving.usage_error import UsageError

SMALL = ModelShape(
    vocabulary=512, layers=2, hidden=32, heads=2, kv_heads=1, head_size=16, experts=8, active=2, expert_hidden=16
)


@pytest.fixture(scope="module")
def tokenizer():
    texts = [turn.content for document in islice(documents(0, "train"), 300) for turn in document.turns]
    return bpe(texts, SMALL.vocabulary)


def settings(**changes):
    return Settings(**{"shape": SMALL, "parts": 2, "part_tokens": 256, "long_tokens": 256} | changes)


def trained(tokenizer, steps, **changes):
    run = TrainingRun(settings(steps=steps, warm_up=2, fall=steps, long=2, **changes), tokenizer)
    return run, [run.step(step) for step in range(steps)]


def test_it_learns(tokenizer):
    run, losses = trained(tokenizer, 60)
    assert losses[-1] < losses[0] - 1
    assert run.measure() < losses[0] - 1


def test_the_same_seed_gives_the_same_weights_on_any_number_of_threads(tokenizer):
    one, two, other = (
        trained(tokenizer, 6, **changes)[0].model for changes in ({"threads": 1}, {"threads": 2}, {"seed": 1})
    )
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    assert not torch.equal(one.embedding, other.embedding)


def test_a_cpu_without_bf16_trains_in_single_precision_and_says_so(tokenizer, capsys):
    assert for_cpu(settings(), has_bf16=True) == settings() and not capsys.readouterr().err
    wide = for_cpu(settings(), has_bf16=False)
    assert TrainingRun(wide, tokenizer).made.narrow == torch.float32
    assert "this CPU has no BF16" in capsys.readouterr().err
    assert for_cpu(wide, has_bf16=False) == wide and not capsys.readouterr().err


def test_a_finished_run_leaves_a_model_and_its_log(tokenizer, tmp_path):
    assert train(TrainingRun(settings(steps=4), tokenizer), tmp_path)
    header, *points = map(json.loads, (tmp_path / LOG).read_text().splitlines())
    assert header["finished"] and header["shape"]["experts"] == SMALL.experts
    assert points[-1]["step"] == 4 and points[-1]["tokens"] == 4 * 512
    assert (tmp_path / "model.safetensors").exists() and not (tmp_path / module.UNFINISHED).exists()


def test_a_stopped_run_stays_apart(tokenizer, tmp_path):
    class Stopped(TrainingRun):
        def step(self, step):
            if step > 2:
                raise KeyboardInterrupt
            return super().step(step)

    before = threading.active_count()
    assert not train(Stopped(settings(steps=6), tokenizer), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [module.UNFINISHED]
    assert not json.loads((tmp_path / module.UNFINISHED / LOG).read_text().splitlines()[0])["finished"]
    # Its own have ended; torch keeps some, and other tests of this process may have left theirs.
    assert threading.active_count() < before + 10


@pytest.mark.slow
def test_a_resumed_run_ends_with_the_weights_of_one_that_was_never_stopped(tokenizer, tmp_path, monkeypatch):
    class Stopped(TrainingRun):
        def step(self, step):
            if step > 4:
                raise KeyboardInterrupt
            return super().step(step)

    monkeypatch.setattr(module, "CHECKPOINT_S", 0.0)
    whole = settings(steps=9, warm_up=2, fall=4, long=4, long_every=2)
    assert not train(Stopped(whole, tokenizer), tmp_path)
    for run in (TrainingRun(settings(steps=9), tokenizer), TrainingRun(whole, bpe(["a few words"], 400))):
        with pytest.raises(UsageError, match="of other settings, or of another corpus"):
            train(run, tmp_path, resume=True)
    resumed, straight = TrainingRun(replace(whole, threads=1), tokenizer), TrainingRun(whole, tokenizer)
    assert train(resumed, tmp_path, resume=True) and train(straight, tmp_path / "straight")
    assert all(torch.equal(a, b) for a, b in zip(resumed.model.parameters(), straight.model.parameters(), strict=True))
    points = [json.loads(line) for line in (tmp_path / LOG).read_text().splitlines()[1:]]
    assert points[-1]["tokens"] == resumed.tokens == straight.tokens
    assert not (tmp_path / CHECKPOINT).exists()


def test_a_run_goes_on_from_the_weights_of_another_in_its_tokens_and_below_its_log(tokenizer, tmp_path):
    assert train(TrainingRun(settings(steps=4, asked=0.0), tokenizer), tmp_path / "first")
    begun = from_model(tmp_path / "first", settings(steps=2, seed=1, asked=0.5))
    assert begun.settings.began == sha256((tmp_path / "first" / "model.safetensors").read_bytes()).hexdigest()
    assert begun.tokenizer.get_vocab() == tokenizer.get_vocab()
    assert begun.tokenizer.encode("What is law?").ids == tokenizer.encode("What is law?").ids
    run = TrainingRun(begun.settings, begun.tokenizer, begun.model)
    for ours, theirs in zip(run.model.parameters(), load(tmp_path / "first").parameters(), strict=True):
        assert torch.equal(ours, theirs)
    assert train(run, tmp_path / "second", earlier=begun.log)
    runs = logged_runs(tmp_path / "second")
    assert [(run.settings["steps"], run.settings["asked"]) for run in runs] == [(4, 0.0), (2, 0.5)]
    assert [run.points[-1]["step"] for run in runs] == [4, 2]
    points = one_after_the_other([run.points for run in runs])
    assert [points[-1]["tokens"], points[-2]["tokens"]] == [6 * 512, 4 * 512]


def test_weights_may_be_between_those_that_a_run_began_with_and_its_last_ones(tokenizer, tmp_path):
    assert train(TrainingRun(settings(steps=4), tokenizer), tmp_path / "first")
    ends = {}
    for kept in (1.0, 0.25):
        begun = from_model(tmp_path / "first", settings(steps=3, seed=1, kept=kept))
        run = TrainingRun(begun.settings, begun.tokenizer, begun.model)
        assert train(run, tmp_path / str(kept), earlier=begun.log)
        ends[kept] = list(run.model.parameters())
    for first, last, between in zip(load(tmp_path / "first").parameters(), ends[1.0], ends[0.25], strict=True):
        assert torch.equal(between, torch.lerp(first, last, 0.25)) and not torch.equal(first, last)
    assert "25% of the way" in training_of(logged_runs(tmp_path / "0.25"))
    assert "of the way" not in training_of(logged_runs(tmp_path / "1.0"))


def test_a_run_goes_on_from_a_model_with_narrower_heads(tokenizer, tmp_path):
    assert train(TrainingRun(settings(steps=4), tokenizer), tmp_path / "first")
    begun = from_model(tmp_path / "first", settings(steps=2, shape=replace(SMALL, head_size=24)))
    run = TrainingRun(begun.settings, begun.tokenizer, begun.model)
    assert train(run, tmp_path / "second", earlier=begun.log)
    assert load_model(tmp_path / "second").config.head_dim == 24
    with pytest.raises(UsageError, match=r"no bundled model can be read there \(its heads are of 24, not of 16"):
        from_model(tmp_path / "second", settings())


def load(folder):
    return from_hf(load_model(folder), SMALL)


@pytest.mark.parametrize("shape", [SMALL, ModelShape()], ids=["no model", "another shape"])
def test_what_cannot_be_begun_with_is_told_of(tokenizer, tmp_path, shape):
    if shape != SMALL:
        assert train(TrainingRun(settings(steps=1), tokenizer), tmp_path)
    with pytest.raises(UsageError, match=r"--start-from .*: no bundled model can be read there \("):
        from_model(tmp_path, settings(shape=shape))


def test_without_a_checkpoint_there_is_nothing_to_resume(tokenizer, tmp_path):
    with pytest.raises(UsageError, match=r"There is no checkpoint in .*unfinished, so no training to resume\."):
        train(TrainingRun(settings(), tokenizer), tmp_path, resume=True)


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[:-200], lambda data: b"no checkpoint"])
def test_a_damaged_checkpoint_is_told_of(tokenizer, tmp_path, damage):
    unfinished = tmp_path / module.UNFINISHED
    unfinished.mkdir()
    save_checkpoint(TrainingRun(settings(), tokenizer), 0, TrainingProgress(), unfinished)
    path = unfinished / CHECKPOINT
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(UsageError, match=r"checkpoint\.pt can't be read"):
        train(TrainingRun(settings(), tokenizer), tmp_path, resume=True)


def test_the_learning_rate_rises_stays_and_falls_to_nothing():
    rates = [rate_at(step, Settings(steps=1000, warm_up=50, fall=600)) for step in range(1000)]
    assert rates[0] == 0.02 and rates[49] == rates[400] == 1.0 and 0 < rates[-1] < 0.01
    assert rates[50:] == sorted(rates[50:], reverse=True)


def test_long_conversations_come_now_and_then_at_the_end_of_a_run(tokenizer):
    shape = settings(steps=12, long=8, long_every=4, long_tokens=512)
    assert [step for step in range(12) if is_long(step, shape)] == [4, 8]
    run, read = TrainingRun(shape, tokenizer), []
    for step in range(12):
        before = run.tokens
        run.step(step)
        read.append(run.tokens - before)
    assert read == [768 if step in (4, 8) else 512 for step in range(12)]


def test_all_but_the_steps_that_end_a_run_are_those_of_a_longer_one(tokenizer):
    short, long = (TrainingRun(settings(steps=steps, fall=2, long=2), tokenizer) for steps in (5, 9))
    for step in range(3):
        assert short.step(step) == long.step(step)
    assert all(torch.equal(a, b) for a, b in zip(short.model.parameters(), long.model.parameters(), strict=True))


def test_updates_are_nearly_orthogonal():
    torch.manual_seed(0)
    for shape in ((5, 24, 8), (5, 8, 24)):
        sizes = torch.linalg.svdvals(orthogonal(torch.randn(shape)))
        assert float(sizes.min()) > 0.6 and float(sizes.max()) < 1.3


def test_the_chat_template_and_training_write_a_chat_alike(tokenizer, tmp_path):
    save_tokenizer(tokenizer, 1024, tmp_path)
    chat = [("system", "Be brief."), ("user", "What is 12 + 7?"), ("assistant", "It is 19.")]
    tokens = encode(tokenizer, Document("math", tuple(DialogueTurn(role, text) for role, text in chat)))
    messages = [{"role": role, "content": text} for role, text in chat]
    hf = AutoTokenizer.from_pretrained(tmp_path)
    assert hf.apply_chat_template(messages, return_dict=False) == tokens.ids
    answer = [i for i, weight in zip(tokens.ids, tokens.weights, strict=True) if weight != ASKED]
    assert hf.decode(answer) == "<|im_start|>assistant\nIt is 19.<|im_end|>\n"


def test_digits_are_single_tokens_and_every_text_comes_back(tokenizer):
    text = "In 1984, 250 käse cost 3.75 € — \n\tso."
    ids = tokenizer.encode(text).ids
    assert tokenizer.decode(ids) == text
    assert len(tokenizer.encode("1984").ids) == 4


def test_batches_are_full_and_their_segments_short_enough(tokenizer):
    stream = (encode(tokenizer, document) for document in documents(0, "train"))
    for batch in islice(batches(segments(stream, 200, 0.5, Random(0)), 1000), 5):
        assert sum(batch.lengths) == len(batch.ids) == len(batch.targets) == len(batch.weights) == 1000
        assert max(batch.lengths) <= 200
        assert len(batch.topics) == 1000 and 0 <= int(batch.topics.min()) <= int(batch.topics.max()) < len(NAMES)
        ends = torch.tensor(batch.lengths).cumsum(0) - 1
        assert torch.equal(batch.targets[:-1][batch.weights[:-1] > 0], batch.ids[1:][batch.weights[:-1] > 0])
        assert not batch.weights[ends].any()
