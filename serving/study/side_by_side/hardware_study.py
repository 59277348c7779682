"""The study whose variants are pieces of hardware: its text, as a file would have it, and what is checked before it."""

import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from device_model.load import load_model, obeys_laws, systems_with_laws
from device_model.specs.hardware_file import load_hardware
from device_model.specs.spec import DeviceError
from serving.device.device_spec import DeviceSpec
from serving.policies.placement import TOPIC
from serving.scenario.fleet import located
from serving.scenario.scenario import Scenario
from serving.study.measures.targets import Targets
from serving.study.side_by_side.options_table import OptionsTable
from serving.study.spec import study_of
from serving.study.study import Study
from serving.types import NEVER
from serving.usage_error import UsageError
from serving.workload.shares import NOBODY
from serving.workload.source import Source
from serving.workload.spec import Workload, load_workload

NAME = "study.toml"


class SideBySide(NamedTuple):
    """A comparison to make: pieces of `hardware` by name, `devices` of each, that serve `model` to the requests of the
    `workload` file, with each of the `seeds` (none: its own), of each run at most `requests`; `targets` judge them.
    ELMoE-3D's hardware serves experts by the `law`."""

    hardware: tuple[str, ...]
    workload: Path
    model: str
    devices: int = 1
    targets: Targets = Targets(own=True)
    seeds: tuple[int, ...] = ()
    requests: int | None = None
    law: str = Scenario().law


def hardware_study(asked: SideBySide, out: Path) -> Study:
    """Return the study, as it would stand in folder `out`.

    Raise UnknownName for hardware or a model that is unknown, UsageError for hardware that is named twice or that the
    model does not fit on, and `WorkloadError` for a workload that can't be read.
    """
    _check_names(asked.hardware)
    _check_law(asked)
    _check_once("seed", asked.seeds)
    has_topics = _has_topics(load_workload(asked.workload, requests=asked.requests))
    follows = {name: _follows_topics(name, asked) and has_topics for name in asked.hardware}
    text = _text(asked, follows)
    return study_of(OptionsTable(tomllib.loads(text), out / NAME, text), asked.requests)


def _check_names(hardware: tuple[str, ...]) -> None:
    if len(hardware) < 2:
        named = ", ".join(hardware) or "nothing"
        raise UsageError(f"There is only {named} to compare; allowed are two pieces of hardware or more.")
    _check_once("hardware", hardware)
    for name in hardware:
        load_hardware(name)


def _check_law(asked: SideBySide) -> None:
    if asked.law != Scenario().law and not any(_obeys_laws(name) for name in asked.hardware):
        *others, last = systems_with_laws()
        allowed = f"some of {', '.join(others)} or {last}"
        raise UsageError(f"The law is {asked.law!r}, and no hardware here obeys it; allowed is {allowed}.")


def _obeys_laws(hardware: str) -> bool:
    return obeys_laws(load_hardware(hardware).system)


def _check_once(what: str, values: Sequence[str | int]) -> None:
    twice = [value for place, value in enumerate(values) if value in values[:place]]
    if twice:
        raise UsageError(f"The {what} {twice[0]} is named twice; allowed is each once.")


def _has_topics(workload: Workload) -> bool:
    """Tell whether requests have topics, by the workload's shares or by rows of its trace, of those that wait for no
    other."""
    return workload.topics is not NOBODY or (workload.trace is not None and any(ask.topic for ask in Source(workload)))


def _follows_topics(hardware: str, asked: SideBySide) -> bool:
    """Tell whether the system of `hardware` places the model's experts by topic in its paper. Raise UsageError if the
    model does not fit."""
    load_model(asked.model)
    scenario = Scenario(hardware=hardware, model=asked.model)
    spec = DeviceSpec.of(scenario, scenario.members[0])
    try:
        options = spec.load()
        spec.device_limits(options)
    except DeviceError as error:
        raise UsageError(f"{hardware} cannot serve {asked.model}: {error}") from error
    return options.device.places_experts and bool(options.device.setup.model.experts)


def _text(asked: SideBySide, follows: dict[str, bool]) -> str:
    """Return what a study's file would say, so that it can be made again, or changed."""
    title = f"{asked.model} on {', '.join(asked.hardware)}"
    lines = [
        f"title = {_quoted(title)}",
        'question = "compare"',
        f"workload = {_quoted(str(asked.workload.absolute()))}",
    ]
    if asked.seeds:
        lines.append(f"seeds = {list(asked.seeds)}")
    lines += ["", "[scenario]", f"model = {_quoted(asked.model)}", f"devices = {asked.devices}"]
    lines += _slo(asked.targets)
    for name in asked.hardware:
        lines += ["", f"[variants.{_quoted(name)}]", f"hardware = {_quoted(located(name))}"]
        if asked.law != Scenario().law and _obeys_laws(name):
            lines.append(f"law = {_quoted(asked.law)}")
        if follows[name]:
            # As its paper has it; what the others hold they hold by use.
            lines.append(f"placement = {_quoted(TOPIC)}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """Return a text as TOML has it: as JSON, which may write some letters in halves, and here does not."""
    return json.dumps(text, ensure_ascii=False)


def _slo(targets: Targets) -> list[str]:
    """Return the targets as a file says them. Where percentiles alone are asked, it has no limits beside theirs."""
    limits = {each.key: each.limit_s for each in targets.percentiles}
    alone = bool(limits) and not targets.share
    limits |= {} if alone else {"ttft_ms": targets.ttft_s, "tpot_ms": targets.tpot_s}
    # All digits but the last: by that one 0.07 s are 70.00000000000001 ms.
    lines = [f"{name} = {limit * 1000:.15g}" for name, limit in limits.items() if limit != NEVER]
    if not alone and targets.share != Targets().share:
        lines.append(f"share = {targets.share}")
    return ["", "[slo]", *lines] if lines else []
