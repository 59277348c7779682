"""Does the default mode, which goes by time, lose no time to a fixed one in the studies that are worked out?"""

from itertools import product
from pathlib import Path
from statistics import mean

import pytest

from serving.study.axes import LOAD, combinations
from serving.study.point import VARIANT
from serving.study.point_factory import point_of
from serving.study.spec import load_study
from serving.study.summary import Row

EXAMPLES = Path(__file__).parents[3] / "examples/studies"
FIXED = ("fixed-ar", "fixed-sd")
MOST_LOST, SEEDS = 0.02, 6
# Of one device of 4 GB runs vary most: by six seeds the default is 2.2 % behind, by fourteen 1.5 %.
MORE_SEEDS = {("node-sizing", 0.9): 12}
# A study, a place in it, and the load there: about as much as it holds in the better of the fixed modes.
SLOWLY = [
    ("node-sizing", {"hardware": "elmoe3d-8gb", "devices": 1}, 6.0),
    ("node-sizing", {"hardware": "elmoe3d-4gb", "devices": 2}, 2.5),
    ("choosing-tau", {"tau": 0}, 1.0),
    ("topic-drift", {VARIANT: "fcfs"}, 1.0),
    ("topic-drift", {VARIANT: "topic-aware, experts by topic"}, 1.0),
    ("modes", {"hardware": "elmoe3d-8gb"}, 5.0),
    ("agents", {"hardware": "elmoe3d-8gb", "prefix_caching": True}, 2.2),
    ("modes", {"hardware": "elmoe3d-4gb", "law": "published"}, 1.9),
    ("node-sizing", {"hardware": "elmoe3d-4gb", "devices": 1}, 0.9),
    ("agents", {"hardware": "elmoe3d-4gb", "prefix_caching": True}, 2.2),
    ("agents", {"hardware": "elmoe3d-4gb", "prefix_caching": True}, 1.0),
    ("agents", {"hardware": "elmoe3d-4gb", "prefix_caching": False}, 1.2),
    ("hardware-for-users", {VARIANT: "elmoe3d-8gb"}, 4.0),
]
QUICKLY = [
    ("modes", {"hardware": "elmoe3d-4gb"}, 1.3),
    ("hardware-for-users", {VARIANT: "elmoe3d-8gb"}, 1.0),
]
PLACES = [*QUICKLY, *(pytest.param(*each, marks=pytest.mark.slow) for each in SLOWLY)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "place", "load"), PLACES)
def test_the_default_mode_loses_no_more_than_two_percent(name: str, place: dict[str, object], load: float) -> None:
    """One run is 1 to 2 % off another, of the study of modes 2 to 3 %: by twelve seeds at 4 GB the default is 0.8 %
    behind the better mode on average, and from 1.9 % before it to 6.0 % behind. So the mean of several judges studies
    without seeds."""
    study = load_study(EXAMPLES / f"{name}.toml")
    found: dict[str, list[Row]] = {mode: [] for mode in ("tau", *FIXED)}
    seeds = study.seeds[:1] or range(MORE_SEEDS.get((name, load), SEEDS))
    for mode, seed in product(found, seeds):
        found[mode].append(point_of(study, place | {LOAD: load, "mode": mode}, seed).run().summary)
    e2e_s, rate = (
        {mode: mean(row[figure] for row in rows) for mode, rows in found.items()}
        for figure in ("e2e_mean_s", "tokens_per_s")
    )
    assert e2e_s["tau"] <= (1 + MOST_LOST) * min(e2e_s[mode] for mode in FIXED)
    assert rate["tau"] >= (1 - MOST_LOST) * max(rate[mode] for mode in FIXED)


def test_each_study_is_tried_unless_its_devices_have_no_draft_or_always_use_it() -> None:
    tried = {name for name, _, _ in [*QUICKLY, *SLOWLY]}
    for path in EXAMPLES.glob("*.toml"):
        study = load_study(path)
        variants = [{VARIANT: name} for name in study.variants] or [{}]
        places = [variant | place for variant in variants for place in combinations(study.axes)]
        scenarios = [point_of(study, place, None).scenario for place in places]
        members = [member for scenario in scenarios if scenario.mode != "fixed-sd" for member in scenario.members]
        assert any(member.draft for member in members) == (path.stem in tried), path.stem
