"""Does Ray start an actor again that could not start in a restart, and is one told of that cannot start at all?"""

from types import SimpleNamespace

import pytest

from serving.cluster.supervision import failed_restart
from serving.cluster.supervision.failed_restart import started_again


class Ended(BaseException):
    """The process has ended."""


class Actor:
    @started_again
    def __init__(self, folder: str) -> None:
        self.folder = folder
        if not folder:
            raise OSError(28, "No space left on device")


@pytest.fixture
def restarted(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    context = SimpleNamespace(was_current_actor_reconstructed=True)

    def end(code: int) -> None:
        assert code
        raise Ended

    monkeypatch.setattr("ray.get_runtime_context", lambda: context)
    monkeypatch.setattr(failed_restart.os, "_exit", end)
    monkeypatch.setattr(failed_restart, "AGAIN_S", 0.0)
    return context


def test_one_that_fails_in_a_restart_ends_its_process_and_says_why(
    restarted: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    assert Actor("/there").folder == "/there" and not caplog.text
    with pytest.raises(Ended):
        Actor("")
    assert "could not start again" in caplog.text and "No space left on device" in caplog.text


def test_one_that_fails_at_the_start_is_not_tried_again(restarted: SimpleNamespace) -> None:
    restarted.was_current_actor_reconstructed = False
    with pytest.raises(OSError, match="No space left"):
        Actor("")
