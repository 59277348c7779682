"""Caveats of answers: where they turn on the law of HB's hits, and where steps are beyond what was published."""

from device_model.specs.law import Law
from serving.device.law_tau import taus
from serving.study.results import Results
from serving.study.summary import Row

LAW = "law"
# Modes that ask the device model from which batch on to speculate.
CHOOSING = ("tau", "cost")
# Of expert reads, or of steps: less changes no answer.
LITTLE = 0.005


def caveats(results: Results) -> list[str]:
    """Return a sentence for each caveat that holds for some of a study's points."""
    rows = [finding.row for finding in results.findings if not finding.error]
    study = results.study
    varied = LAW in study.axes or any(LAW in settings for settings in study.variants.values())
    law = "" if varied else str(study.scenario.get(LAW, ""))
    found = [_of_law(rows, law, varied), "" if varied else _of_tau(results), _of_range(rows)]
    return [sentence for sentence in found if sentence]


def _of_law(rows: list[Row], law: str, varied: bool) -> str:
    differing = [row["beyond_hb_share"] for row in rows if row["beyond_hb_share"] > LITTLE]
    if not differing:
        return ""
    where = f"{len(differing)} of {len(rows)} points"
    much = f"up to {max(differing):.0%} of expert reads"
    if law == Law.PUBLISHED:
        return (
            f"Under the law `published` HB serves more experts than it holds in {where} ({much}): no cache can do that."
        )
    told = f"The answer may turn on the law: in {where} the paper's hit rates need more than HB holds ({much})"
    return f"{told}." if varied else f'{told}. An axis `law = ["realisable", "published"]` tells.'


def _of_tau(results: Results) -> str:
    """Tell of devices that speculate from another batch on under the other law, if tau is theirs to choose."""
    scenarios = [finding.point.scenario for finding in results.findings if not finding.error]
    asked = [each for each in scenarios if each.mode in CHOOSING and not each.tau and each.residency == "analytic"]
    pairs = dict.fromkeys((member, each.model) for each in asked for member in each.members)
    by_law = {f"{member.hardware} with {model}": taus(member, model) for member, model in pairs}
    differing = [
        f"{name} from a batch of {found[Law.REALISABLE]} on, as published of {found[Law.PUBLISHED]}"
        for name, found in by_law.items()
        if found and found[Law.REALISABLE] != found[Law.PUBLISHED]
    ]
    if not differing:
        return ""
    return f"The answer may turn on the law, as speculating does: it pays on {'; on '.join(differing)}."


def _of_range(rows: list[Row]) -> str:
    beyond = [row["unpublished_share"] for row in rows if row["unpublished_share"] > LITTLE]
    if not beyond:
        return ""
    return (
        f"In {len(beyond)} of {len(rows)} points steps are beyond the batches and sizes of HB that ELMoE-3D's paper "
        f"published (up to {max(beyond):.0%} of steps): laws are drawn out there, and nothing tests them."
    )
