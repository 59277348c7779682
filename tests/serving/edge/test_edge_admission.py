"""Do limits of keys, and hints when to come again, follow from the requests that leave a server's queue?"""

from functools import partial

import pytest

from serving.admission.rules import AdmissionRules
from serving.admission_request import AdmissionRequest
from serving.call import Call
from serving.edge.edge_admission import DepartureFeed
from serving.flight import Flight
from serving.scenario.scenario import Scenario
from serving.types import Request


@pytest.mark.parametrize(("call", "left"), [(Call(0.0), 1000 - 400), (None, 1000 - 500)])
def test_only_a_key_that_was_charged_gets_back_what_was_not_made(call: Call | None, left: int) -> None:
    rules = AdmissionRules.of(Scenario(key_tokens_per_min=1000, max_queue=2), None, early_rejection=False)
    assert rules.judge(AdmissionRequest(100, 400), 0, 0.0) is None
    feed = DepartureFeed(rules, partial(next, iter((0.0, 3.0))))
    # One that a front end of its own brings is judged by nobody.
    feed.on_finish(Flight(None, Request("a", 0.0, 100, 100), 0, call=call))
    assert rules.limits_of("").headers(0.0, 1.0)["x-ratelimit-remaining-tokens"] == str(left)
    feed.on_finish(Flight(None, Request("b", 0.0, 100, 100), 0))
    assert rules.departures.promise_s(3.0) == 3.0
