"""Training: is it the same each time, and does it learn what it is shown?"""

from collections import Counter
from random import Random

import numpy as np
import pytest

from serving.lab.topic_training import command
from serving.lab.topic_training import train as training
from serving.lab.topic_training.command import prepared, train_topics, written
from serving.lab.topic_training.generate import generate, mistyped, wrapped
from serving.topics.labelled_prompts import LabelledPrompt
from serving.topics.names import NAMES
from serving.usage_error import UsageError


def test_generated_prompts_are_the_same_for_a_seed_and_are_of_every_topic():
    prompts = list(generate(1))
    assert prompts == list(generate(1)) != list(generate(2))
    counts = Counter(topic for topic, _ in prompts)
    assert set(counts) == set(NAMES) and min(counts.values()) >= 100
    assert not [prompt for _, prompt in prompts if "{x}" in prompt or "{p}" in prompt]
    assert all(prompt.strip() and "\t" not in prompt for _, prompt in prompts)


def test_written_prompts_are_many_and_stand_in_one_file_each():
    sources = written()
    prompts = [prompt.prompt.lower() for found in sources.values() for prompt in found]
    assert len(prompts) >= 1500
    assert len(set(prompts)) == len(prompts)


def test_the_generated_and_the_written_are_trained_on_together():
    few = [LabelledPrompt("cs", "what is a pointer", 1)]
    assert prepared(few, 0) == prepared(few, 0)
    assert len(prepared(few, 0)) == 1 + len(list(generate(0)))


@pytest.mark.parametrize("change", [mistyped, wrapped])
def test_what_is_changed_is_changed_the_same_way_each_time(change):
    texts = [f"explain the thing number{i} to me" for i in range(100)]
    once, again = ([change(text, rng) for text in texts] for rng in (Random(3), Random(3)))
    assert once == again
    assert 0 < sum(a != b for a, b in zip(once, texts, strict=True)) < 60


@pytest.mark.slow
def test_training_repeats_itself_and_learns(monkeypatch):
    monkeypatch.setattr(training, "EPOCHS", 4)
    prompts = [LabelledPrompt(topic, prompt, 0) for topic, prompt in list(generate(0))[::12]]
    prompts += [prompt for source in written().values() for prompt in source[::20]]
    one, two = training.train(prompts, 5), training.train(prompts, 5)
    assert all(np.array_equal(one[name], two[name]) for name in one)
    assert set(one) == set(two) and all(np.isfinite(tensor).all() for tensor in one.values())
    assert training.accuracy(one, prompts) > 0.5


@pytest.mark.parametrize("place", ["", "file/weights.safetensors"])
def test_what_cannot_be_written_is_refused_before_it_trains(tmp_path, monkeypatch, place):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setattr(command, "train", lambda *_: pytest.fail("It trained."))
    with pytest.raises(UsageError, match="--out is "):
        train_topics(tmp_path / place, 0, None)


def test_a_place_that_is_lost_while_it_trains_is_told_in_a_sentence(tmp_path, monkeypatch):
    out = tmp_path / "new" / "weights.safetensors"

    def trained(*_):
        out.parent.rmdir()
        return {"x": np.zeros(1, np.float32)}

    monkeypatch.setattr(command, "train", trained)
    with pytest.raises(UsageError, match=f"Cannot write {out}: .*No such file"):
        train_topics(out, 0, None)


def test_an_unknown_source_to_hold_out_is_refused():
    with pytest.raises(UsageError, match=r"--hold-out is 'nobody'; allowed is one of first, second"):
        train_topics(None, 0, "nobody")
