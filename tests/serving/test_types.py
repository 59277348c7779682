"""Is what comes as a request, from whomever, one that can be scheduled?"""

from math import inf, nan

import msgspec
import pytest

from serving.types import Request


@pytest.mark.parametrize("arrival_s", [0.0, 12.5, -3.0])
def test_a_request_arrives_as_it_was_sent(arrival_s: float) -> None:
    sent = Request("a", arrival_s, 5, 9, released=3)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(sent), type=Request) == sent


@pytest.mark.parametrize(
    "sent",
    [
        Request("a", nan, 5, 5),
        Request("a", inf, 5, 5),
        Request("a", 0.0, 0, 5),
        Request("a", 0.0, -1, 5),
        Request("a", 0.0, 5, 0),
        Request("a", 0.0, 2**62, 5),
        Request("a", 0.0, 5, 5, released=-1),
    ],
)
def test_one_that_no_scheduler_could_end_is_refused(sent: Request) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(msgspec.msgpack.encode(sent), type=Request)
