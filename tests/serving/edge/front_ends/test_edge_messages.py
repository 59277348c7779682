"""What an edge in a process of its own asks arrives as it was asked; what nobody can ask for is no message."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.admission_request import AdmissionRequest
from serving.edge.front_ends.edge_messages import AdmissionCall, BroughtCall
from serving.edge.text_choice import TextNeeds


def message(asked: AdmissionRequest) -> AdmissionCall:
    call = BroughtCall(1, "/v1/completions", 2.0, [("x", "y")], {"slo": "z"})
    return AdmissionCall(call, "a", asked, 0, {}, TextNeeds(True, False, 7))


@given(st.integers(0, 2**31), st.integers(0, 2**31), st.integers(1, 99), st.none() | st.integers(0, 9))
def test_what_is_asked_arrives(prompt_tokens: int, max_tokens: int, n: int, device: int | None) -> None:
    asked = message(AdmissionRequest(prompt_tokens, max_tokens, n, device))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(asked), type=AdmissionCall) == asked


def test_a_negative_size_is_no_message() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(msgspec.msgpack.encode(message(AdmissionRequest(1, -1))), type=AdmissionCall)
