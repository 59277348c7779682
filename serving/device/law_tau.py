"""Tau of a device under each law: the batch from which on it speculates tells whether what it does turns on one."""

from functools import lru_cache

from device_model.acceptance import batch_plan
from device_model.load import OWN_DRAFTS, load_device
from device_model.specs.law import Law
from serving.policies.step_options import PLAIN, StepOptions
from serving.scenario.fleet import Member

# Batches in which tau is looked for.
BATCHES = range(1, 65)


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


def faster_from(step_options: StepOptions, depths: tuple[int, ...]) -> int:
    """Return tau: the smallest batch from which on speculation is faster than plain decoding, at the 1k context of
    ELMoE-3D's Table 3; one more than the largest of `BATCHES` if there is none."""
    tau = BATCHES.stop
    for batch in reversed(BATCHES):
        plain, *drafting = step_options.price(batch_plan(batch), depths=(PLAIN, *depths))
        if max(option.tokens_per_s for option in drafting) <= plain.tokens_per_s:
            return tau
        tau = batch
    return tau
