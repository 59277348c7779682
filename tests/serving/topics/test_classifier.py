"""Does a prompt get a topic that depends on nothing but the prompt?"""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from serving.topics.classifier import MOST
from serving.topics.labelled_prompts import read_labelled
from serving.topics.names import NAMES
from tests.examples import examples

BLIND = Path(__file__).parent / "blind.tsv"
EXPECTED = {
    "Can my landlord keep the deposit without giving a reason?": "legal",
    "Why did the Roman Republic turn into an empire?": "humanities",
    "my python script throws KeyError when i parse json": "cs",
    "How does a vaccine train the immune system?": "science",
    "solve 3x + 5 = 20 for x": "math",
    "On an island of knights and knaves, A says that B lies. Who is what?": "logic",
    "what should i cook tonight with leeks and potatoes": "other",
}


def test_plain_prompts_get_their_topic(classifier):
    found = classifier.classify(list(EXPECTED))
    assert [topic.name for topic in found] == list(EXPECTED.values())


def test_scores_are_probabilities_and_the_largest_is_the_topics(classifier):
    for topic in classifier.classify(list(EXPECTED)):
        assert tuple(topic.scores) == NAMES
        assert sum(topic.scores.values()) == pytest.approx(1, abs=1e-5)
        assert topic.confidence == topic.scores[topic.name] == max(topic.scores.values())


@examples(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(st.sampled_from(list(EXPECTED)), st.text(max_size=300)), max_size=MOST + 3))
def test_a_batch_changes_nothing(classifier, prompts):
    together = classifier.classify(prompts)
    assert len(together) == len(prompts)
    for prompt, topic in zip(prompts, together, strict=True):
        (alone,) = classifier.classify([prompt])
        assert topic.scores == pytest.approx(alone.scores, abs=1e-4)
        ranked = sorted(alone.scores.values())
        if ranked[-1] - ranked[-2] > 1e-3:
            assert topic.name == alone.name


def test_at_least_85_percent_of_prompts_that_it_never_saw_are_right(classifier):
    """A third person wrote them, and nothing was trained on them."""
    prompts = read_labelled(BLIND)
    found = classifier.classify([prompt.prompt for prompt in prompts])
    right = sum(topic.name == prompt.topic for topic, prompt in zip(found, prompts, strict=True))
    assert len(prompts) >= 300
    assert right / len(prompts) >= 0.85
