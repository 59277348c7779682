"""A Ray that does not start is told of in a sentence, and leaves nothing behind."""

from pathlib import Path
from typing import Any

import pytest
import ray

from serving.cluster.session.ray_session import ray_session
from serving.usage_error import UsageError


def test_a_ray_that_does_not_start_in_time_is_told_of_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray waits for 30 s, and no longer."""

    folders = list[Path]()

    def late(*args: Any, **kwargs: Any) -> None:
        folders.append(Path(kwargs["_temp_dir"]).parent)
        assert folders[-1].exists()
        raise Exception("The current node timed out during startup. This could happen because the GCS is overloaded.")

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray, "init", late)
    with pytest.raises(UsageError, match=r"Ray did not start .*timed out during startup\)"), ray_session():
        pass
    assert not any(folder.exists() for folder in folders)


@pytest.mark.slow
def test_one_that_starts_at_the_second_attempt_is_good_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    start, attempts = ray.init, list[Path]()

    def stuck_once(*args: Any, **kwargs: Any) -> None:
        attempts.append(Path(kwargs["_temp_dir"]))
        if len(attempts) == 1:
            raise RuntimeError("Timed out waiting for file gcs_server_port")
        start(*args, **kwargs)

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray, "init", stuck_once)
    with ray_session():
        assert ray.get(ray.put(7)) == 7
    assert len(set(attempts)) == 2 and not any(folder.parent.exists() for folder in attempts)


@pytest.mark.slow
def test_a_call_after_the_end_starts_no_other_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be one in /tmp/ray, with a dashboard, and with nobody to end it."""

    def start(*args: Any, **kwargs: Any) -> None:
        pytest.fail("Ray was started again.")

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with ray_session():
        pass
    monkeypatch.setattr(ray, "init", start)
    with pytest.raises(Exception, match="not been started"):
        ray.put(7)
