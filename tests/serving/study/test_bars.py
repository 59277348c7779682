"""Does the picture of capacities say which of them were found, and what comes beyond?"""

import pytest

from serving.study.report.answers.bars import bars_picture

LIMITS = {
    "TTFT": "33 users, then TTFT is missed",
    "TPOT p99, and misses it at 0.5 too": "33 users, then TPOT p99 is missed, and misses it at 0.5 too",
    "requests turned away": "33 users, then requests are turned away",
    "none up to 1024": "at least 33 users (none up to 1024)",
    "workload too short": "at least 33 users (workload too short)",
}


@pytest.mark.parametrize("limit", LIMITS)
def test_a_bar_says_whether_more_was_tried_and_what_came_of_it(limit: str) -> None:
    picture = bars_picture([{"hardware": "elmoe3d-4gb", "load": 2.0, "users": 33, "limit": limit}])
    assert f">{LIMITS[limit]}<" in picture.svg
    assert ("Hatched" in picture.caption) == LIMITS[limit].startswith("at least")
