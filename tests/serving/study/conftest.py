"""Studies of tests are run in the tests' process, unless they are to show what workers do."""

from math import inf

import pytest

from serving.study import runner


@pytest.fixture(autouse=True)
def without_workers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """To start Ray takes longer than any of them, however slow the machine. Who has `cores` for them means workers."""
    if "cores" not in request.fixturenames:
        monkeypatch.setattr(runner, "RAY_STARTS_S", inf)
        monkeypatch.setattr(runner, "has_few", lambda point: True)
