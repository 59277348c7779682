"""Short forms of the harnesses, so that none of them rots."""

from serving.child import Child
from tests.soak.fuzz import fuzz


def test_odd_requests_beside_seeded_streams_change_nothing(emulator: Child) -> None:
    assert fuzz(emulator, http=300, grpc=200, seed=0) == []
