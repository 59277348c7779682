"""Are the card's figures what they say they are?"""

from dataclasses import asdict
from math import log

import pytest
import torch
from transformers import PreTrainedTokenizerFast

from serving.lab.locality_of_routes import top_quarter
from serving.lab.training.card.card import Facts, card
from serving.lab.training.card.curve import draw
from serving.lab.training.evaluate import (
    JudgedAnswer,
    TopicResult,
    answer,
    entropy,
    held_out,
    measure_topic,
    readable_share,
    words_of,
)
from serving.lab.training.export import to_hf
from serving.lab.training.judging.agents import AgentResult
from serving.lab.training.judging.arithmetic import SumResult
from serving.lab.training.judging.long_context import LongResult
from serving.lab.training.judging.ordinary import OrdinaryReply
from serving.lab.training.model import TrainedModel, initialise
from serving.lab.training.progress import LoggedRun, TrainingProgress
from serving.lab.training.settings import Settings
from serving.lab.training.shape import ModelShape
from serving.lab.training.tokenizer import bpe, save_tokenizer
from serving.topics.names import TOPICS

SMALL = ModelShape(
    vocabulary=300, layers=2, hidden=32, heads=2, kv_heads=1, head_size=16, experts=8, active=2, expert_hidden=16
)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(bpe(["What is a court? It is a place."] * 10, SMALL.vocabulary), 512, folder)
    return PreTrainedTokenizerFast.from_pretrained(folder)


@pytest.fixture(scope="module")
def model():
    return initialise(TrainedModel(SMALL), 0)


def test_words_are_runs_of_letters_or_digits():
    assert list(words_of("It's 3 o\u2019clock, x_1: well-known Käse!")) == [
        *("it's", "3", "o\u2019clock", "x", "1", "well", "known", "käse")
    ]


def test_numbers_and_known_words_are_readable():
    assert readable_share(["The court blorped 12 times."], {"the", "court", "times"}) == pytest.approx(4 / 5)
    assert readable_share([""], set()) == 0


def test_the_top_quarter_of_even_use_gets_a_quarter_and_of_one_expert_everything():
    use = torch.tensor([[1 / 8] * 8, [1.0] + [0.0] * 7])
    assert top_quarter(use.numpy()).tolist() == pytest.approx([0.25, 1.0])
    assert entropy(use).tolist() == pytest.approx([3.0, 0.0], abs=1e-6)


def test_an_untrained_model_is_as_good_as_guessing(model, tokenizer):
    result = measure_topic(model, held_out("legal", tokenizer, 5))
    assert result.loss == pytest.approx(log(300), abs=0.1)
    assert result.experts.sum(-1).tolist() == pytest.approx([1.0, 1.0])


def test_an_answer_is_what_comes_after_the_prompt(model, tokenizer):
    said = answer(to_hf(model), tokenizer, "legal", "What is a court?")
    assert "im_start" not in said.text and said.prompt not in said.text


def test_a_card_names_its_figures_and_shows_answers(tmp_path):
    progress = TrainingProgress(held_out=2.5)
    progress.step(0, 3.25, 1024, 1.5, 0)
    progress.end()
    points = [asdict(point) for point in progress.points]
    results = {topic: TopicResult(1000, 1.5, 1.25, torch.full((4, 64), 1 / 64)) for topic in TOPICS}
    said = [JudgedAnswer(topic, f"Ask {topic}?", "It is.\n\nYes.", True) for topic in TOPICS]
    sums = [SumResult("the table of ten", 40, 39, False)]
    replies = [OrdinaryReply("Why?", "So.", True, False), OrdinaryReply("Who?", "I.", True, True)]
    agents = AgentResult(40, 31, 30, 38, 35)
    narrower = Settings(shape=ModelShape(head_size=64))
    more = Settings(steps=800, asked=0.5, began="0123456789abcdef" * 4, narrow=False)
    runs = [LoggedRun(asdict(settings), points) for settings in (narrower, more)]
    text = card(
        Facts(
            runs,
            5_949_632,
            results,
            said,
            0.987,
            sums,
            agents,
            replies,
            [LongResult(1024, 0.125, 9, 4)],
        )
    )
    for part in (
        "98.7%",
        "| **all** | **1.500** | **1.250** | 6,000 |",
        "| logic | 25%, 6.0 bits |",
        "> It is.\n>\n> Yes.",
        "| the table of ten | yes | 39 of 40 |",
        "2 of 2 can be read, and 1 are about",
        "**Why?** · readable, off topic",
        "31 replies call the right tool",
        "| 1,024 to 2,047 | 0.125 | 4 of 9 |",
        "in BF16.\nThe corpus",
        "(SHA-256 0123456789abcdef..., its heads widened from 64 to 96) on, 1,024 tokens",
        "in single precision.\nOf its documents 50% are questions on\nanything",
        "rise to 10% of those above",
        "fall linearly to\nzero in 800 steps, of which these are the first.",
    ):
        assert part in text
    draw([points, points], tmp_path / "loss.png")
    assert (tmp_path / "loss.png").stat().st_size > 1000
