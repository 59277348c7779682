"""Steps that are priced and recorded together are those that would have been one by one, whatever comes between."""

from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.clock import VirtualClock
from serving.device import pending_steps
from serving.device.pending_steps import PendingSteps
from serving.types import Request, StepRecord
from tests.examples import examples
from tests.serving.device.test_engine import Bench


def records(together: int, outputs: list[int], cut: tuple[int, float] | None) -> list[StepRecord]:
    """Return the records of a device whose requests arrive at once; at a share of the `cut`'s step its condition
    changes, to what it was."""
    bench = Bench(VirtualClock(), [Request(str(id), 0.0, 100, output) for id, output in enumerate(outputs)])
    engine, made = bench.driver.engine, 0
    with mock.patch.object(pending_steps, "TOGETHER", together):
        while len(bench.ended) < len(outputs):
            steps = PendingSteps(engine, engine.plan(engine.at_s), leaps=False)
            going = True
            while going:
                if cut is not None and made == cut[0]:
                    steps.reprice(engine.at_s + cut[1] * (steps.end_s - engine.at_s))
                steps.make()
                made += 1
                going = steps.advance()
    return [release.record for release in bench.releases if release.record is not None]


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=6),
    st.none() | st.tuples(st.integers(0, 40), st.floats(0.0, 0.99)),
    st.integers(2, 9),
)
@examples(40)
def test_steps_prepared_together_are_those_prepared_one_by_one(
    outputs: list[int], cut: tuple[int, float] | None, together: int
) -> None:
    alone = records(1, outputs, cut)
    assert records(together, outputs, cut) == alone
    ends_s = [record.start_s + record.latency_s for record in alone]
    assert [record.start_s for record in alone[1:]] == pytest.approx(ends_s[:-1], rel=1e-12)


def test_steps_after_a_wait_for_tokens_are_recorded_when_they_begin() -> None:
    bench = Bench(VirtualClock(), [Request("a", 0.0, 100, 12)])
    engine = bench.driver.engine
    while not bench.ended:
        steps, made = PendingSteps(engine, engine.plan(engine.at_s), leaps=False), 0
        going = True
        while going:
            steps.make()
            made += 1
            if made == 2:
                # As a driver does whose token source was behind, amid steps that are recorded already.
                engine.at_s += 5.0
            going = steps.advance()
    assert engine.at_s > 5.0 and len(bench.releases) > 5
    for release in bench.releases:
        assert release.record is not None and release.record.start_s == release.start_s
