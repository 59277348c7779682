"""SLO classes: what a scenario says of them is what they promise."""

from itertools import pairwise

import pytest

from serving.key_values import TermError
from serving.scenario.slo import DEFAULT_CLASSES, SloClass, parse_classes
from serving.types import NEVER


def test_a_class_promises_what_its_terms_say() -> None:
    classes = parse_classes(["chat: ttft_ms=250, tpot_ms=20.5, priority=-2", "batch:", "idle: priority=9"], "`c`")
    assert classes == {
        "chat": SloClass("chat", 0.25, 0.0205, -2),
        "batch": SloClass("batch", NEVER, NEVER, 0),
        "idle": SloClass("idle", NEVER, NEVER, 9),
    }


@pytest.mark.parametrize("texts", [[], ["none"]])
def test_a_scenario_may_have_no_classes(texts: list[str]) -> None:
    assert parse_classes(texts, "`c`") == {}


def test_of_the_default_classes_a_stricter_one_comes_sooner() -> None:
    classes = list(parse_classes(DEFAULT_CLASSES, "`c`").values())
    assert [c.name for c in classes] == ["interactive", "standard", "batch"]
    for sooner, later in pairwise(classes):
        assert sooner.ttft_s < later.ttft_s and sooner.tpot_s < later.tpot_s and sooner.priority < later.priority


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("chat: ttft_ms=0", "`ttft_ms` = 0 for 'chat': it must be above 0"),
        ("chat: tpot_ms=-1", "`tpot_ms` = -1 for 'chat'"),
        ("chat: ttft=5", "'ttft=5': allowed is ttft_ms=..., tpot_ms=..., priority=..."),
        ("chat: priority=99999999999999999999", "64 bits"),
        ("batch:", "'batch' twice"),
        ("none: ttft_ms=5", "'none', under which requests without a class are counted"),
        ("custom:", "'custom', under which"),
    ],
)
def test_a_wrong_class_is_refused_in_one_sentence(text: str, said: str) -> None:
    with pytest.raises(TermError) as caught:
        parse_classes(["batch: priority=1", text], "`slo_classes`")
    assert said in str(caught.value) and str(caught.value).startswith("`slo_classes`")
