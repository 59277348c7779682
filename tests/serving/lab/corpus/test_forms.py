"""Are answers as JSON copied from what was said, by the keys that were asked for, whatever the names are?"""

import re
from itertools import islice
from random import Random

from serving.lab.corpus.agents.forms import FIELDS, FORMS, NAMES, SLOT, VALUES, form, noted
from serving.lab.corpus.corpus import documents
from serving.lab.corpus.parts import TextDraw

DRAWS = 2000


def drawn() -> list[tuple[str, dict[str, object]]]:
    return [form(TextDraw(Random(seed))) for seed in range(DRAWS)]


def test_every_value_stands_in_the_question() -> None:
    for prompt, wanted in drawn():
        assert wanted
        for value in wanted.values():
            assert re.search(rf"(?<!\w){re.escape(str(value))}(?!\w)", prompt), (prompt, wanted)


def test_keys_are_those_asked_for_or_fit_what_is_said_where_none_is() -> None:
    none_asked = 0
    for prompt, wanted in drawn():
        if any(wish in prompt for wish in FORMS["without_keys"]):
            none_asked += 1
            continue
        at = [re.search(rf"(?<!\w){key}(?!\w)", prompt) for key in wanted]
        assert all(at), (prompt, wanted)
    assert 0.3 < none_asked / DRAWS < 0.5


def test_every_place_in_a_sentence_is_a_field_and_every_field_is_used() -> None:
    used = {name for said in FORMS["said"] for name in SLOT.findall(said)}
    assert used == set(FIELDS)
    assert {field["value"] for field in FIELDS.values() if "value" in field} <= set(VALUES)
    assert all(len(VALUES[kind]) == len(set(VALUES[kind])) for kind in VALUES)


def test_names_are_more_than_can_be_learnt_by_heart_and_some_nobody_has() -> None:
    cities = {wanted["city"] for _, wanted in drawn() if "city" in wanted}
    assert len(cities) > 100 and len(cities - set(VALUES["city"])) > 20
    assert set(NAMES) <= set(VALUES)


def test_there_are_thousands_of_kinds_of_object() -> None:
    assert len({tuple(wanted) for _, wanted in drawn()}) > 400


def test_nobody_gets_json_who_did_not_ask_for_it() -> None:
    for seed in range(DRAWS):
        prompt, reply = noted(TextDraw(Random(seed)))
        assert "JSON" not in prompt and "{" not in prompt + reply
    chats = [chat for chat in islice(documents(0, "train", 0.5), 4000) if chat.turns[-1].content in FORMS["noted"]]
    assert 10 < len(chats) < 60
