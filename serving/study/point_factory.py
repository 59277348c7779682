"""The runs that a study's settings mean."""

import copy
from typing import Any

from serving.study.axes import LOAD, WORKLOAD, Settings
from serving.study.point import SEED, VARIANT, Point
from serving.study.study import Study


def point_of(study: Study, settings: Settings, seed: int | None) -> Point:
    """Return the run of a study with these settings; `variant` among them stands for its own."""
    variant = study.variants.get(settings.get(VARIANT, ""), {})
    all_of = variant | {name: value for name, value in settings.items() if name != VARIANT}
    workload = copy.deepcopy(study.workload.values)
    for name, value in all_of.items():
        if name.startswith(f"{WORKLOAD}."):
            _put(workload, name.split(".")[1:], value)
    scenario = {name: value for name, value in all_of.items() if name != LOAD and "." not in name}
    seeds = {} if seed is None else {SEED: seed}
    return Point(
        names=settings | seeds,
        scenario_keys=study.scenario | scenario | seeds,
        workload=study.workload.with_values(workload),
        load=all_of.get(LOAD, 1.0),
        seed=seed,
        requests=study.requests,
        targets=study.targets,
        from_s=study.from_s,
        to_s=study.to_s,
        percentiles=study.percentiles,
        cost=study.cost,
    )


def points_of(study: Study, settings: Settings) -> list[Point]:
    """Return the runs with these settings: one for each of the study's seeds."""
    return [point_of(study, settings, seed) for seed in study.seeds or (None,)]


def _put(tree: dict[str, Any], keys: list[str], value: Any) -> None:
    """Set what may stand in tables in tables; one that is written in short is the table that it is short for."""
    for key in keys[:-1]:
        below = tree.get(key, {})
        tree[key] = below if isinstance(below, dict) else {"kind": "constant", "value": below}
        tree = tree[key]
    tree[keys[-1]] = value
