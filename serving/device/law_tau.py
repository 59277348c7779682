"""Tau of a device under each law: the batch from which on it speculates tells whether what it does turns on one."""

from functools import lru_cache

from device_model.load import OWN_DRAFTS, load_device
from device_model.specs.law import Law
from serving.device.mode_choice import faster_from
from serving.policies.step_options import StepOptions
from serving.scenario.fleet import Member


@lru_cache(maxsize=256)
def taus(member: Member, model: str) -> dict[Law, int]:
    """Return tau under each law; nothing for a device without a draft, or of another paper. Raise DeviceError."""
    if not member.draft or member.system not in OWN_DRAFTS:
        return {}
    found = {}
    for law in Law:
        options = StepOptions(load_device(member.system, member.hardware, model, member.draft, law=law))
        found[law] = faster_from(options, (options.calibrated,))
    return found
