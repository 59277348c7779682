"""Batches in which a device drafts under each law: they tell whether what it does turns on one."""

from functools import lru_cache

from device_model.load import obeys_laws
from device_model.specs.law import Law
from serving.device.device_spec import DeviceSpec
from serving.device.drafting_ranges import paying_ranges
from serving.policies.placed_plan import Mix
from serving.policies.step_options import StepOptions

CONTEXT, MOST = 1024, 64
"""The context of ELMoE-3D's Table 3, and the largest batch that is looked at."""


@lru_cache(maxsize=256)
def drafting_by_law(spec: DeviceSpec) -> dict[Law, tuple[range, ...]]:
    """Return the batches in which drafting is faster under each law; nothing for a device without a draft, or of
    another paper. Raise as `DeviceSpec.load` does."""
    if not spec.draft or not obeys_laws(spec.system):
        return {}
    options = {law: spec._replace(law=law.value).load() for law in Law}
    return {law: faster_in(each, spec.mix_of_all()) for law, each in options.items()}


def faster_in(options: StepOptions, mix: Mix | None = None) -> tuple[range, ...]:
    """Return the batches of up to `MOST` sequences that decode faster if they draft as deep as is calibrated, at a
    context of `CONTEXT`. With a `mix`, experts are placed for it."""
    return tuple(paying_ranges(options, (options.calibrated,), CONTEXT, MOST, mix))
