"""Short forms of the harnesses, so that none of them rots."""

import pytest

from serving.process.server_process import ServerProcess
from tests.conftest import QUEUE
from tests.soak.chaos import chaos
from tests.soak.fuzz import fuzz
from tests.soak.overload import overload
from tests.soak.soak import mixed


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_odd_requests_beside_seeded_streams_change_nothing(emulator: ServerProcess) -> None:
    # Lateness is the machine's, beside other tests: `python -m tests.soak.fuzz` judges it.
    assert fuzz(emulator, http=80, grpc=60, seed=0, again=0) == []


@pytest.mark.slow
def test_clients_beyond_the_queue_are_told_when_to_come_back_and_nothing_else(emulator: ServerProcess) -> None:
    assert overload(emulator, seconds=2, places=QUEUE, factor=3) == []


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_clients_that_go_away_leave_nothing_behind(emulator: ServerProcess) -> None:
    wrong, _ = mixed(emulator, seconds=6)
    assert wrong == []


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_processes_that_die_or_stop_lose_no_token(emulator: ServerProcess) -> None:
    assert chaos(emulator, hits=1, seed=2, seconds=60) == []
