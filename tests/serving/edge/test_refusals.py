"""A refusal is for now or for good by its reason alone, in metrics as in the answer."""

import pytest

from serving.edge.refusals import ENDING, GivenUp, Invalid, Overflow, exception_of
from serving.refusals import OVERLOAD, Reason, Refusal


@pytest.mark.parametrize("reason", Reason)
def test_a_reason_alone_says_whether_the_client_may_come_again(reason: Reason) -> None:
    refusal = Refusal(reason, "No.", wait_s=4.0, field="n")
    error = exception_of(refusal, speed=2.0)
    assert refusal.for_now is (reason in OVERLOAD) is isinstance(error, Overflow)
    if isinstance(error, Overflow):
        assert error.retry_after_s == 2.0 and error.reason is reason
        assert str(error) == "No. Try again in 2 s."
    else:
        assert isinstance(error, Invalid) and str(error) == "No."


@pytest.mark.parametrize(("why", "status"), [(None, 500), (7, 500), ("It can't go on.", 500), (ENDING, 503)])
def test_what_a_server_that_shuts_down_has_not_done_another_one_may_do(why: int | str | None, status: int) -> None:
    error = GivenUp(why)
    assert error.http_status == status and error.is_cause is not isinstance(why, str)
    assert str(error) == why or not isinstance(why, str)
