"""Text of a workload's segments: as long as asked by the bundled vocabulary, shared where ids are, and on its topic."""

import json
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

import serving.scheduler.prefix_hash
from serving.lab.corpus.corpus import EXCHANGE, prompts
from serving.load.texts import QUESTIONS, text_of
from serving.scenario.scenario import BUNDLED_MODEL
from serving.topics.classifier import Classifier
from serving.topics.names import OTHER, TOPICS
from serving.workload import Segment, Source
from serving.workload.ask import block_hashes
from serving.workload.spec import workload_of
from serving.workload.table import WorkloadTable
from tests.serving.workload.files import served

TOKENIZER = Tokenizer.from_file(str(BUNDLED_MODEL / "tokenizer.json"))
segments = st.builds(
    Segment, st.integers(0, 2**64 - 1), st.integers(1, 400), st.just("user"), st.sampled_from(["", OTHER, *TOPICS])
)


def tokens(text: str) -> list[int]:
    return TOKENIZER.encode(text, add_special_tokens=False).ids


@given(st.lists(segments, min_size=1, max_size=5))
def test_a_prompt_has_as_many_tokens_as_its_segments(prompt):
    text = " ".join(map(text_of, prompt))
    assert len(tokens(text)) == sum(segment.tokens for segment in prompt)


@given(segments, st.integers(1, 400))
def test_equal_ids_begin_alike(segment, other_tokens):
    if segment.topic:
        return  # Only blocks of a trace have equal ids and other lengths, and no topic.
    one, other = (text_of(each).split() for each in (segment, Segment(segment.id, other_tokens)))
    shared = min(len(one), len(other))
    assert one[:shared] == other[:shared]


@pytest.mark.parametrize("topic", ["", "math", "legal"])
def test_other_ids_do_not_share_even_a_block(topic):
    begins = {tuple(tokens(text_of(Segment(id, 64, "user", topic)))[:16]) for id in range(2000)}
    assert len(begins) == 2000


def test_a_topic_that_we_know_nothing_of_is_as_good_as_none():
    assert text_of(Segment(7, 30, "user", "cooking")) == text_of(Segment(7, 30))


def test_prompts_share_the_same_blocks_live_and_in_virtual_time():
    """By their tokens, as the server hashes them, and by their segments."""
    lengths = {"prompt": {"kind": "uniform", "min": 20, "max": 90}, "output": 30}
    tables = {"arrivals": {"kind": "closed", "users": 2}, "sessions": {"turns": 3}, "system": {"tokens": 70}}
    workload = workload_of(WorkloadTable({"requests": 12, "topics": {"cs": 1, "math": 1}} | tables | lengths, None))
    asks = [ask for ask, _ in served(Source(workload))]
    texts = [" ".join(map(text_of, ask.prompt)) for ask in asks]
    live = [serving.scheduler.prefix_hash.block_hashes(tokens(text), 16) for text in texts]
    virtual = [block_hashes(ask.prompt, 16) for ask in asks]

    def shared(hashes: list[list[int]]) -> list[int]:
        return [len(set(one) & set(other)) for one, other in combinations(hashes, 2)]

    assert shared(live) == shared(virtual)
    assert min(shared(live)) == 70 // 16 < max(shared(live))


def test_our_own_classifier_knows_what_a_prompt_is_about():
    classify = Classifier.load().classify
    for topic in TOPICS:
        found = classify([text_of(Segment(id, 100, "user", topic)) for id in range(20)])
        assert sum(each.name == topic for each in found) >= 18


def test_the_questions_are_those_of_the_corpus():
    kept = json.loads(QUESTIONS.read_text(encoding="utf-8"))
    assert kept.keys() == EXCHANGE.keys()
    assert all(kept[topic] == list(prompts(topic, len(kept[topic]), 0)) for topic in kept)
