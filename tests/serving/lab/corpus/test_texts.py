"""Plain texts: clean, whole, the same for the same seed, of their topic, and begun as a prompt that is served."""

import re
from itertools import islice
from random import Random

import pytest
from transformers import PreTrainedTokenizerFast

from serving.lab.corpus.corpus import documents
from serving.lab.corpus.knowledge import knowledge
from serving.lab.corpus.parts import TextDraw
from serving.lab.corpus.texts.articles import FILES, article, instructions, reason
from serving.lab.corpus.texts.mixed import plain_text
from serving.lab.corpus.texts.notes import note, recipe
from serving.lab.corpus.texts.stories import DATA, story
from serving.lab.training.batches import encode
from serving.lab.training.tokenizer import END_OF_TURN, rendered
from serving.scenario.scenario import BUNDLED_MODEL

SEEDS = range(600)
VOWEL = re.compile(r"\b[Aa] (?:[aeio]|hour|honest)\w*")
FINE = re.compile(r"\b[Aa] (?:uni|use|eu|one\b|once)")
ENDS = (".", "?", "!", '."', '!"')


def draws() -> list[TextDraw]:
    return [TextDraw(Random(seed)) for seed in SEEDS]


STORIES = [story(draw) for draw in draws()]
TEXTS = [plain_text(draw) for draw in draws()]


def test_texts_are_clean_and_end_in_a_stop():
    for document in TEXTS:
        text = document.turns[0].content
        assert [turn.role for turn in document.turns] == ["text"]
        assert text.strip() == text and text.endswith(ENDS), text
        assert not re.search(r"[{}|]| [.,;?]|\.\.|  |\n\n\n", text), text
        assert not [hit for hit in VOWEL.findall(text) if not FINE.match(hit)], text
        assert text[0].isupper() or text[0].isdigit(), text


@pytest.mark.parametrize("make", [story, note, recipe, article, reason, instructions, plain_text])
def test_a_text_is_the_same_for_the_same_seed(make):
    assert [make(draw) for draw in draws()[:50]] == [make(draw) for draw in draws()[:50]]


def test_stories_differ():
    assert len(set(STORIES)) == len(STORIES)
    assert len({text.split(".")[0] for text in STORIES}) > 0.8 * len(STORIES)
    words = [tuple(text.split()[:2]) for text in STORIES]
    assert len(set(words)) > 20


def test_stories_are_short_and_most_are_of_several_paragraphs_or_one():
    lengths = [len(text.split()) for text in STORIES]
    assert min(lengths) >= 80 and max(lengths) <= 250
    assert {text.count("\n\n") for text in STORIES} == {0, 2}


def test_many_stories_begin_as_stories_do():
    assert 0.15 < sum(text.startswith("Once") for text in STORIES) / len(STORIES) < 0.6


def test_a_story_keeps_to_its_people():
    """All people who are named have been drawn for it, two at most, and both keep their pronouns."""
    girls, boys = DATA["rules"]["girl"], DATA["rules"]["boy"]
    for text in STORIES:
        named = {name for name in (*girls, *boys) if re.search(rf"\b{name}\b", text)}
        assert 1 <= len(named) <= 2, text
        if named <= set(girls):
            assert not re.search(r"\b(?:himself)\b", text)
        if named <= set(boys):
            assert not re.search(r"\b(?:herself)\b", text)


def test_an_article_tells_what_is_known_in_its_topic():
    topics = set()
    for draw in draws():
        topic, text = article(draw)
        topics.add(topic)
        known = knowledge(FILES[topic])
        told = [concept for concept in known.concepts if concept.sentence in text]
        assert 1 <= len(told) <= 2, text
        rest = text
        for concept in told:
            for sentence in (concept.sentence, *concept.facts):
                rest = rest.replace(sentence, "")
        left = re.sub(r"Something else belongs here\.|Close to this stands another idea\.", "", rest).strip()
        assert not left or left.lower() in {concept.name.lower() for concept in told}, text
    assert topics == set(FILES)


def test_a_text_is_trained_on_whole_and_begins_as_a_prompt_that_is_served():
    tokenizer = PreTrainedTokenizerFast.from_pretrained(BUNDLED_MODEL)
    for document in TEXTS[:30]:
        text = document.turns[0].content
        assert [written for _, written in rendered(document)] == [f"{text}{END_OF_TURN}\n"]
        stream = encode(tokenizer.backend_tokenizer, document)
        assert set(stream.weights) == {1.0}
        served = tokenizer(text)["input_ids"]
        assert stream.ids[: len(served)] == served


def test_the_stream_has_texts_of_many_kinds_in_both_splits():
    for split in ("train", "held-out"):
        texts = [document for document in islice(documents(0, split), 3000) if document.turns[0].role == "text"]
        assert len({document.topic for document in texts}) > 5
