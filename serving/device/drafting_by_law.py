"""Batches in which a device drafts under each law: they tell whether what it does turns on one."""

from functools import lru_cache

from device_model.load import load_device, obeys_laws
from device_model.specs.law import Law
from serving.device.drafting_ranges import paying_ranges
from serving.policies.step_options import StepOptions
from serving.scenario.fleet import Member

CONTEXT, MOST = 1024, 64
"""The context of ELMoE-3D's Table 3, and the largest batch that is looked at."""


@lru_cache(maxsize=256)
def drafting_by_law(member: Member, model: str) -> dict[Law, tuple[range, ...]]:
    """Return the batches in which drafting is faster under each law; nothing for a device without a draft, or of
    another paper. Raise DeviceError."""
    if not member.draft or not obeys_laws(member.system):
        return {}
    devices = {law: load_device(member.system, member.hardware, model, member.draft, law=law) for law in Law}
    return {law: faster_in(StepOptions(device)) for law, device in devices.items()}


def faster_in(options: StepOptions) -> tuple[range, ...]:
    """Return the batches of up to `MOST` sequences that decode faster if they draft as deep as is calibrated, at a
    context of `CONTEXT`."""
    return tuple(paying_ranges(options, (options.calibrated,), CONTEXT, MOST))
