"""Bodies of the admin's calls: one field, a text, and a 400 with a sentence for anything else."""

import pytest
from fastapi import HTTPException
from hypothesis import given
from hypothesis import strategies as st

from serving.api.http_admin import said
from serving.load.http import error_text

DEEP = 100_000


def test_the_field_is_what_is_said() -> None:
    assert said(b'{"fault": "stall: for=3"}', "fault") == "stall: for=3"


ODD = [b"", b"null", b"[]", b'{"device": "x"}', b'{"fault": 1}', b'{"fault": "a", "b": "c"}', b'{"fault": "\xff"}']
NESTED = [b"[" * DEEP, b'{"fault": ' * DEEP, b'{"fault": ' + b"[" * DEEP]


@pytest.mark.parametrize("body", [*ODD, *NESTED])
def test_anything_else_is_refused_however_deep_it_is(body: bytes) -> None:
    with pytest.raises(HTTPException, match=r'must be \{"fault"') as refused:
        said(body, "fault")
    assert refused.value.status_code == 400


@given(st.binary())
def test_no_bytes_are_more_than_refused(body: bytes) -> None:
    with pytest.raises(HTTPException):
        said(body, "fault")


@given(st.binary() | st.just(b"[" * DEEP))
def test_whatever_a_server_says_can_be_told(body: bytes) -> None:
    assert error_text(body)
