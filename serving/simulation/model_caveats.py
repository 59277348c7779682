"""Caveats of the device model, for whatever was run on it: where it goes beyond its law, its paper, or measurements."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from device_model.load import load_device
from device_model.specs.law import Law
from serving.scenario.fleet import Member
from serving.scenario.scenario import Scenario
from serving.types import StepRecord

LITTLE = 0.005
"""Of expert reads, or of steps: less changes no answer."""
RUNS = "runs"


class ModelShares(NamedTuple):
    """Of one run: reads of experts that the paper's law has beyond what HB holds; steps beyond what was published."""

    beyond_hb: float
    unpublished: float


def shares_of(records: Iterable[StepRecord]) -> ModelShares:
    """Return the shares of a run's steps."""
    beyond = lookups = 0.0
    unpublished = steps = 0
    for record in records:
        beyond, lookups = beyond + record.hits_beyond_hb, lookups + record.expert_lookups
        unpublished, steps = unpublished + record.unpublished, steps + record.steps
    return ModelShares(beyond / (lookups or 1.0), unpublished / (steps or 1))


def model_caveats(scenario: Scenario, runs: Sequence[ModelShares], of: str = RUNS) -> list[str]:
    """Return a sentence for each caveat of runs of a scenario; `of`: what they are called."""
    pairs = [(member, scenario.model) for member in scenario.members]
    sentences = (
        of_law([run.beyond_hb for run in runs], scenario.law, of),
        of_range([run.unpublished for run in runs], of),
        of_locality(pairs),
    )
    return [sentence for sentence in sentences if sentence]


def of_law(beyond: Sequence[float], law: str, of: str) -> str:
    """Tell where hits are more than HB holds, by their shares of the reads of each run."""
    differing = [share for share in beyond if share > LITTLE]
    if not differing:
        return ""
    where, much = _where(differing, beyond, of), f"up to {max(differing):.0%} of expert reads"
    if law == Law.PUBLISHED:
        return (
            f"Under the law `published` HB serves more experts than it holds in {where} ({much}): no cache can do that."
        )
    return f"The answer may turn on the law: in {where} the paper's hit rates need more than HB holds ({much})."


def of_range(unpublished: Sequence[float], of: str) -> str:
    """Tell where steps are beyond what was published, by their shares of the steps of each run."""
    beyond = [share for share in unpublished if share > LITTLE]
    if not beyond:
        return ""
    return (
        f"In {_where(beyond, unpublished, of)} steps are beyond the batches and sizes of HB that ELMoE-3D's paper "
        f"published (up to {max(beyond):.0%} of steps): laws are drawn out there, and nothing tests them."
    )


def of_locality(pairs: Iterable[tuple[Member, str]]) -> str:
    """Tell of models, each on a device, whose locality nobody has measured."""
    models = dict.fromkeys(model for member, model in pairs if unmeasured(member, model))
    if not models:
        return ""
    return (
        f"Locality of {' and '.join(models)} is uniform, as nobody has measured it: experts are all alike there, and "
        "HB is worth at least as much as is shown."
    )


@lru_cache(maxsize=256)
def unmeasured(member: Member, model: str) -> str:
    """Return what a device assumes of a model that nobody has measured; "" for nothing. Raise DeviceError."""
    return load_device(member.system, member.hardware, model).unmeasured


def _where(some: Sequence[float], every: Sequence[float], of: str) -> str:
    return "this run" if of == RUNS and len(every) == 1 else f"{len(some)} of {len(every)} {of}"
