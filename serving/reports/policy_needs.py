"""What policies need to be compared: a device with a draft to speculate with, and experts to place; and seeds that
differ."""

import dataclasses
from collections.abc import Sequence
from typing import NoReturn

from device_model.specs.spec import DeviceError
from serving.device.device_spec import DeviceSpec
from serving.policies.placement import TOPIC
from serving.scenario.fleet import Member
from serving.scenario.scenario import Scenario
from serving.usage_error import UsageError, given_again


def check_device(scenario: Scenario) -> None:
    """Raise UsageError unless the scenario's device can have all policies: it names the option that must be another.
    Raise DeviceError for a device that can't be at all."""
    member = scenario.members[0]
    device = DeviceSpec.of(scenario, member).load().device
    if not member.draft:
        _refuse(scenario, member, "has no draft to speculate with")
    if not device.setup.model.experts:
        allowed = f"a model with experts, such as {Scenario().model}"
        raise UsageError(
            f"--model is {scenario.model}, which has no experts for policies to place; allowed is {allowed}."
        )
    try:
        DeviceSpec.of(dataclasses.replace(scenario, placement=TOPIC), member).load()
    except DeviceError:
        _refuse(scenario, member, "has no fast tier to place experts in by topic")


def _refuse(scenario: Scenario, member: Member, lacks: str) -> NoReturn:
    raise UsageError(
        f"--hardware is {scenario.hardware}, whose system {member.system} {lacks}, as policies do; allowed "
        "is ELMoE-3D's hardware (elmoe3d-4gb to elmoe3d-8gb, or a file of its kind), with --system elmoe3d or hb_xpu."
    )


def check_seeds(seeds: Sequence[int]) -> None:
    """Raise UsageError for seeds of which one is given twice: it tells nothing more."""
    if twice := given_again(seeds):
        raise UsageError(f"--seeds has {twice[0]} twice: once is enough.")
