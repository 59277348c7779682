"""Is the shipped model as good as its card says, by the same measures: topics, sums, 4k contexts, replies?"""

import pytest
import torch
from transformers import PreTrainedTokenizerFast

from serving.lab.locality_of_routes import top_quarter
from serving.lab.training.card.card import Facts, measure
from serving.lab.training.export import load_model
from serving.lab.training.judging.ordinary import ask
from serving.scenario.scenario import BUNDLED_MODEL

# All is measured at once, which takes a minute or two of a core, on a busy machine ten times as long.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
LEAST_RIGHT, LEAST_RIGHT_OF_NEW, MOST_LOSS, LEAST_RECALLED = 0.95, 0.75, 0.3, 0.2
SPECIALISED = 1.5 * 0.25  # what the busiest quarter of the experts gets at least, of a topic's tokens in a layer


@pytest.fixture(scope="module")
def facts() -> Facts:
    torch.set_num_threads(1)
    return measure(BUNDLED_MODEL)


def test_each_topic_has_experts_of_its_own_in_each_layer(facts: Facts) -> None:
    for result in facts.topics.values():
        assert (top_quarter(result.experts.numpy()) >= SPECIALISED).all()
    of_all = torch.stack([result.experts for result in facts.topics.values()]).mean(0)
    for result in facts.topics.values():
        assert (top_quarter(result.experts.numpy()) > top_quarter(of_all.numpy())).all()


def test_no_expert_is_dead(facts: Facts) -> None:
    of_all = torch.stack([result.experts for result in facts.topics.values()]).mean(0)
    assert float(of_all.min()) > 0


def test_small_sums_come_out_right_and_some_of_those_that_it_never_saw(facts: Facts) -> None:
    for result in facts.sums:
        least = LEAST_RIGHT_OF_NEW if result.kept_back else LEAST_RIGHT
        assert result.right >= least * result.asked, result


def test_held_out_text_is_expected(facts: Facts) -> None:
    for topic, result in facts.topics.items():
        assert result.answer_loss < MOST_LOSS, topic


def test_text_is_as_good_at_the_end_of_4k_tokens_and_some_of_what_was_told_first_is_known(facts: Facts) -> None:
    assert sum(result.start for result in facts.long) == 1024 + 2048 + 3072
    for result in facts.long:
        assert result.loss < MOST_LOSS and result.right >= LEAST_RECALLED * result.asked, result


def test_answers_are_made_of_words(facts: Facts) -> None:
    assert facts.readable > 0.99
    assert sum(answer.ended for answer in facts.answers) >= 0.9 * len(facts.answers)


def test_tools_are_called_and_json_is_json(facts: Facts) -> None:
    agents = facts.agents
    assert agents.right_tool >= 0.9 * agents.asked and agents.parsed >= 0.9 * agents.asked


def test_ordinary_questions_have_the_replies_that_were_judged() -> None:
    tokenizer = PreTrainedTokenizerFast.from_pretrained(BUNDLED_MODEL)
    replies = ask(load_model(BUNDLED_MODEL), tokenizer, BUNDLED_MODEL)
    assert len(replies) == 20 and all(reply.readable is not None for reply in replies)
    assert sum(bool(reply.readable) for reply in replies) >= 18 and sum(bool(reply.on_topic) for reply in replies) >= 14
