"""`name: key=value, key=value`: what is written is what is read, and what is wrong is told in one sentence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.key_values import TermError, parse_terms, split_name

ALLOWED = {"at_s": float, "share": float, "priority": int, "of": str}
WORDS = st.text(st.characters(categories=["L", "Nd"], include_characters="_-."), min_size=1)


@given(st.fixed_dictionaries({}, optional={"at_s": st.floats(0, 1e9), "priority": st.integers(), "of": WORDS}))
def test_what_is_written_is_what_is_read(values: dict[str, object]) -> None:
    text = " , ".join(f"{key} = {value}" for key, value in values.items())
    assert parse_terms(text, ALLOWED, "`faults`") == values
    assert split_name(f"stall: {text}", "`faults`") == ("stall", text.strip())


def test_a_name_may_stand_alone() -> None:
    assert split_name(" batch ", "`slo_classes`") == ("batch", "")
    assert parse_terms("", ALLOWED, "`slo_classes`") == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("at_s=soon", "`faults` has 'at_s=soon': `at_s` must be a number."),
        ("at_s=nan", "must be a number"),
        ("at_s=inf", "must be a number"),
        ("at_s=\u0661", "must be a number"),
        ("at_s=1_0", "must be a number"),
        ("priority=1.5", "`priority` must be a whole number."),
        ("of=", "`of` must be a word."),
        ("at=3", "allowed is at_s=..., share=..., priority=..., of=..."),
        ("at_s", "allowed is at_s=..."),
        ("at_s=1, at_s=2", "`at_s` twice"),
    ],
)
def test_wrong_terms_are_refused_in_one_sentence(text: str, said: str) -> None:
    with pytest.raises(TermError) as caught:
        parse_terms(text, ALLOWED, "`faults`")
    assert said in str(caught.value)
    assert str(caught.value).startswith("`faults`")


@pytest.mark.parametrize("text", ["", ": at_s=1", "at_s=1", "at_s=1, stall: share=2"])
def test_a_name_is_needed(text: str) -> None:
    with pytest.raises(TermError, match="a name, a colon, and terms"):
        split_name(text, "`faults`")
