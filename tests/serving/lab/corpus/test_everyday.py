"""Daily life, sums, tools, JSON and long chats: are answers right, and calls as tools want them?"""

import json
import re
from itertools import islice
from random import Random

import pytest
from transformers import PreTrainedTokenizerFast

from serving.lab.corpus import unknown, world
from serving.lab.corpus.agents.structured import structured
from serving.lab.corpus.agents.tool_calls import HEAD, tool_chat
from serving.lab.corpus.arithmetic import drills
from serving.lab.corpus.conversations import TOLD
from serving.lab.corpus.corpus import conversations, dialogue
from serving.lab.corpus.moves import asked_why
from serving.lab.corpus.parts import DialogueTurn, Document, TextDraw
from serving.lab.training.tokenizer import rendered
from serving.scenario.scenario import BUNDLED_MODEL
from serving.topics.names import OTHER

SEEDS = range(300)
EQUALITY = re.compile(r"(?<![-+*/=] )(?<!\d)(\d+ [-+*/] \d+) = (-?\d+)")


def draws() -> list[TextDraw]:
    return [TextDraw(Random(seed)) for seed in SEEDS]


def chats() -> list[Document]:
    return [tool_chat(draw, dialogue(OTHER, 2 * seed)) for seed, draw in zip(SEEDS, draws(), strict=True)]


@pytest.mark.parametrize("make", [drills.row, drills.tale])
def test_drilled_sums_come_out_and_none_was_kept_back(make):
    seen = 0
    for draw in draws():
        exchange = make(draw)
        for sum_, result in EQUALITY.findall(f"{exchange.answer} {exchange.more.get('check', '')}"):
            assert eval(sum_) == int(result)
            seen += 1
        for a, sign, b in re.findall(r"(\d+) ([-+*/]) (\d+) =", exchange.answer):
            assert not drills.kept_back(int(a), sign, int(b))
    assert seen > len(SEEDS)


def test_steps_of_a_sum_lead_to_its_result():
    for draw in draws():
        for sum_ in (drills.small_sum(draw), drills.long_product(draw)):
            steps = drills.steps_of(sum_)
            assert not steps or steps.endswith(f"= {sum_[3]}.")
            assert all(eval(left) == int(right) for left, right in EQUALITY.findall(steps))


def test_a_tenth_of_the_larger_sums_is_kept_back():
    sums = [(a, b) for a in range(13, 100) for b in range(13, 100)]
    assert 0.07 < sum(drills.kept_back(a, "+", b) for a, b in sums) / len(sums) < 0.13
    assert all(drills.kept_back(a, "+", b) == drills.kept_back(b, "+", a) for a, b in sums)


def test_tables_answer_what_they_are_asked():
    capitals = {row[0]: row[1] for row in world.COUNTRIES}
    for draw in draws():
        exchange = world.country(draw)
        asked = re.fullmatch(r"(?:What|Which city) is the capital of (.*)\?", exchange.prompt)
        assert not asked or f"The capital of {asked[1]} is {capitals[asked[1]]}." in exchange.answer
        count = re.search(r"\b(two|three|four|five)\b", world.some_of(draw).prompt)
        assert count is None or count[1] in world.FEW.values()


def test_kinds_are_told_apart():
    for draw in draws():
        exchange = world.some_of(draw)
        found = re.fullmatch(r"Is (.*) (?:a|an) (\w+)\?", exchange.prompt)
        if found:
            thing = found[1]
            assert exchange.answer.startswith("Yes") == (thing in world.KINDS[found[2]])


def test_who_does_not_know_says_what():
    for draw in draws():
        exchange = unknown.named(draw)
        named = re.findall(r"\b[A-Z][a-z]+\b", exchange.prompt[1:])
        assert all(name in exchange.answer for name in named)


@pytest.mark.parametrize(
    ("clause", "question"),
    [
        ("the sky is blue", "Why is the sky blue?"),
        ("we dream", "Why do we dream?"),
        ("bread rises", "Why does bread rise?"),
        ("nobody can divide by zero", "Why can nobody divide by zero?"),
        ("the moon has phases", ""),
    ],
)
def test_a_clause_becomes_a_question(clause, question):
    assert asked_why(clause) == question


def test_calls_are_of_a_tool_that_there_is_with_what_it_wants():
    called = 0
    for chat in chats():
        tools = {tool["name"]: tool for tool in map(json.loads, chat.turns[0].content.removeprefix(HEAD).splitlines())}
        for before, turn in zip(chat.turns, chat.turns[1:], strict=False):
            if not turn.content.startswith("<tool_call>"):
                continue
            call = json.loads(turn.content.removeprefix("<tool_call>").removesuffix("</tool_call>"))
            schema = tools[call["name"]]["parameters"]
            assert list(call["arguments"]) == schema["required"]
            assert all(str(value) in before.content for value in call["arguments"].values())
            called += 1
    assert called > 0.6 * len(SEEDS)


def test_chats_with_tools_are_as_the_template_writes_them():
    tokenizer = PreTrainedTokenizerFast.from_pretrained(BUNDLED_MODEL)
    for chat in chats()[:50]:
        tools = [
            {"type": "function", "function": json.loads(line)}
            for line in chat.turns[0].content.removeprefix(HEAD).splitlines()
        ]
        messages = [message(turn) for turn in chat.turns[1:]]
        written = tokenizer.apply_chat_template(messages, tools=tools, tokenize=False)
        assert written == "".join(text for _, text in rendered(chat))


def message(turn: DialogueTurn) -> dict[str, object]:
    if not turn.content.startswith("<tool_call>"):
        return {"role": turn.role, "content": turn.content}
    call = json.loads(turn.content.removeprefix("<tool_call>").removesuffix("</tool_call>"))
    return {"role": turn.role, "content": None, "tool_calls": [{"type": "function", "function": call}]}


def test_structured_answers_are_json():
    for draw in draws():
        chat = structured(draw)
        value = json.loads(chat.turns[-1].content)
        assert isinstance(value, dict | list) and value
        asked = " ".join(turn.content for turn in chat.turns[:-1])
        assert "JSON" in asked


def test_long_chats_come_back_to_what_was_told():
    replies = {row[3]: row[4] for row in TOLD}
    for chat in islice(conversations(0, "train"), 8):
        told = " ".join(turn.content for turn in chat.turns[:6])
        asked, answer = chat.turns[-4].content, chat.turns[-3].content
        question = next(q for q in replies if asked.endswith(q))
        value = answer.removeprefix(replies[question].split("{v}")[0]).rstrip(".")
        assert value in told
        assert chat.turns[-1].content.startswith("You asked:")
    lengths = [sum(len(t.content.split()) for t in chat.turns) for chat in islice(conversations(1, "train"), 30)]
    assert min(lengths) >= 300 and max(lengths) > 2000
