"""What requests ask for: the same in each of the three ways, and refused in a sentence where it means nothing."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.admission.request_options import FIELDS, InvalidOption, OptionReader
from serving.admission_request import AdmissionRequest
from serving.scenario.slo import DEFAULT_CLASSES, parse_classes
from serving.types import NEVER

READER = OptionReader(parse_classes(DEFAULT_CLASSES, "`c`"), "", ("law", "maths"))
ASKED = {"slo": "interactive", "ttft_ms": 300, "tpot_ms": 12.5, "priority": 7, "topic": "law"}


def read(
    said: Any, extra_args: dict[str, Any], body: dict[str, Any], reader: OptionReader = READER
) -> AdmissionRequest:
    """What a request of one token, and one more, asks for."""
    return reader.read(AdmissionRequest(1, 1), said, extra_args, body)


def options(slo: str = "", ttft_s: float = NEVER, tpot_s: float = NEVER, priority: int = 0) -> AdmissionRequest:
    """It, with these options."""
    return AdmissionRequest(1, 1, slo=slo, ttft_s=ttft_s, tpot_s=tpot_s, priority=priority)


def headers(fields: dict[str, Any]) -> list[tuple[bytes, bytes]]:
    return [(f"x-foreserve-{name.replace('_', '-')}".encode(), str(value).encode()) for name, value in fields.items()]


@given(st.sets(st.sampled_from(FIELDS)))
def test_the_three_ways_say_the_same(names: set[str]) -> None:
    asked = {name: ASKED[name] for name in names}
    said = [read(headers(asked), {}, {}), read([], asked, {}), read([], {}, asked)]
    assert said[0] == said[1] == said[2]
    slo = parse_classes(DEFAULT_CLASSES, "`c`")["interactive"] if "slo" in names else None
    assert said[0].ttft_s == (0.3 if "ttft_ms" in names else slo.ttft_s if slo else NEVER)
    assert said[0].tpot_s == (0.0125 if "tpot_ms" in names else slo.tpot_s if slo else NEVER)
    assert said[0].priority == (7 if "priority" in names else slo.priority if slo else 0)
    assert said[0].topic == ("law" if "topic" in names else "")


def test_the_body_wins_over_a_header_and_a_target_over_the_class() -> None:
    said = headers({"slo": "batch", "ttft_ms": 1})
    assert read(said, {"slo": "interactive"}, {}) == options("interactive", 0.001, 0.05, -1)
    assert read(said, {"ttft_ms": "2"}, {"ttft_ms": 3, "slo": "standard", "priority": None}).ttft_s == 0.003


def test_priorities_have_64_bits() -> None:
    for priority in (-(2**63), 2**63 - 1):
        for said in ((headers({"priority": priority}), {}), ([], {"priority": priority})):
            assert read(*said, {}).priority == priority
    assert read([], {"priority": 3.0}, {}).priority == 3


def test_who_asks_for_nothing_gets_the_default_class() -> None:
    classes = parse_classes(DEFAULT_CLASSES, "`c`")
    assert read([(b"accept", b"*/*")], {"other": 1}, {"user": "x"}) == options()
    standard = OptionReader(classes, "standard", ())
    assert read([], {}, {}, standard) == options("standard", 2.0, 0.2, 0)
    assert read([], {}, {"slo": "batch"}, standard) == options("batch", NEVER, NEVER, 1)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("slo", "gold", "allowed is interactive, standard, batch"),
        ("slo", "", "allowed is interactive"),
        ("slo", ["batch"], "allowed is interactive"),
        ("ttft_ms", "soon", "milliseconds above 0"),
        ("ttft_ms", 0, "milliseconds above 0"),
        ("ttft_ms", "nan", "milliseconds above 0"),
        ("tpot_ms", "inf", "milliseconds above 0"),
        ("tpot_ms", True, "milliseconds above 0"),
        ("tpot_ms", 10**400, "milliseconds above 0"),
        ("priority", 1.5, "whole number"),
        ("priority", 2**70, "whole number"),
        ("priority", {}, "whole number"),
        ("topic", "cooking", "allowed is law, maths"),
    ],
)
def test_a_wrong_wish_is_refused_by_name(field: str, value: Any, said: str) -> None:
    places: list[tuple[str, Any, Any, Any]] = [
        ("", [], {}, {field: value}),
        ("vllm_xargs.", [], {field: value}, {}),
    ]
    for prefix, *given_ in places:
        with pytest.raises(InvalidOption) as caught:
            read(*given_)
        assert str(caught.value).startswith(f"`{prefix}{field}` is ") and said in str(caught.value)
        assert caught.value.field == prefix + field
        assert len(str(caught.value)) < 250
    if not isinstance(value, bool):
        with pytest.raises(InvalidOption, match=f"`x-foreserve-{field.replace('_', '-')}`"):
            read(headers({field: value}), {}, {})


def test_a_header_that_nobody_knows_is_refused_with_those_that_exist() -> None:
    with pytest.raises(
        InvalidOption, match=r"`x-foreserve-tfft-ms` is no header .* x-foreserve-slo, x-foreserve-ttft-ms"
    ):
        read([("x-foreserve-tfft-ms", "5")], {}, {})


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ([(b"x-foreserve-topci", b"law")], "(did you mean `x-foreserve-topic`?)"),
        ([(b"x-foreserve-model", b"m")], "is no header that foreserve knows; allowed are"),
        ([(b"x-foreserve-topic", b"mahts")], "allowed is law, maths (did you mean `maths`?)."),
        ([(b"x-foreserve-slo", b"interactiv")], "(did you mean `interactive`?)"),
    ],
)
def test_the_nearest_name_is_told(said: Any, told: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        read(said, {}, {})
    assert told in str(refused.value)
