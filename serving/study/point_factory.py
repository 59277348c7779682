"""The runs that a study's settings mean, and the hardware that they have."""

import copy
from contextlib import suppress
from typing import Any

from serving.scenario.fleet import FleetError, Member, located, parse_entry
from serving.scenario.scenario import Scenario
from serving.study.axes import LOAD, WORKLOAD, Settings, combinations
from serving.study.point import SEED, VARIANT, Point
from serving.study.study import Study

HARDWARE, FLEET = "hardware", "fleet"
DEVICES = (HARDWARE, FLEET)


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
        asked_share=study.asked_share,
    )


def points_of(study: Study, settings: Settings) -> list[Point]:
    """Return the runs with these settings: one for each of the study's seeds."""
    return [point_of(study, settings, seed) for seed in study.seeds or (None,)]


def hardware_of(study: Study) -> list[str]:
    """Return the hardware of all devices that any run of a study has, each once, by the name that the device has."""
    axes = {name: values for name, values in study.axes.items() if name in DEVICES}
    variants = list(study.variants.values()) or [{}]
    return list(
        dict.fromkeys(
            name
            for variant in variants
            for place in combinations(axes)
            for name in _hardware_by(study.scenario | variant | place)
        )
    )


def _hardware_by(keys: Settings) -> list[str]:
    """Return the hardware that a scenario's keys name; none of an entry that is wrong, which its points tell."""
    own = Member("", keys.get(HARDWARE, Scenario().hardware), "")
    found = [] if keys.get(FLEET) else [own.hardware]
    for entry in keys.get(FLEET, ()):
        with suppress(FleetError):
            found += [member.hardware for member in parse_entry(entry, own, FLEET)]
    return [located(name) for name in found]


def _put(tree: dict[str, Any], keys: list[str], value: Any) -> None:
    """Set what may stand in tables in tables; one that is written in short is the table that it is short for."""
    for key in keys[:-1]:
        below = tree.get(key, {})
        tree[key] = below if isinstance(below, dict) else {"kind": "constant", "value": below}
        tree = tree[key]
    tree[keys[-1]] = value
