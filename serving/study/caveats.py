"""Caveats of answers: where they turn on the law of HB's hits, where steps are beyond what was published, what was
assumed, and what was asked or judged of too few requests."""

from device_model.specs.law import Law
from serving.device.device_spec import DeviceSpec
from serving.device.drafting_by_law import MOST, drafting_by_law
from serving.device.drafting_ranges import told_ranges
from serving.simulation.few_requests import few_judged
from serving.simulation.model_caveats import of_law, of_locality, of_range
from serving.study.point_caveats import judged_of
from serving.study.questions import by_settings
from serving.study.questions.capacity import Capacity
from serving.study.results import Results
from serving.study.store import findings_of
from serving.study.study import Finding
from serving.study.summary import Row

LAW, POINTS = "law", "points"
# Modes that ask the device model from which batch on to speculate.
CHOOSING = ("tau", "cost")


def caveats(results: Results) -> list[str]:
    """Return a sentence for each caveat that holds for some of a study's points."""
    rows = [finding.row for finding in results.findings if not finding.error]
    study = results.study
    varied = LAW in study.axes or any(LAW in settings for settings in study.variants.values())
    law = "" if varied else str(study.scenario.get(LAW, ""))
    told = of_law([row["beyond_hb_share"] for row in rows], law, POINTS)
    if told and not varied and law != Law.PUBLISHED:
        told += ' An axis `law = ["realisable", "published"]` tells.'
    found = [told, "" if varied else _of_tau(results), of_range([row["unpublished_share"] for row in rows], POINTS)]
    scenarios = [finding.point.scenario for finding in results.findings if not finding.error]
    found.append(of_locality(dict.fromkeys((member, each.model) for each in scenarios for member in each.members)))
    found += [_of_never_served(rows), _of_few(results)]
    return [sentence for sentence in found if sentence]


def _of_tau(results: Results) -> str:
    """Tell of devices that draft in other batches under the other law, if that is theirs to choose."""
    scenarios = [finding.point.scenario for finding in results.findings if not finding.error]
    asked = [each for each in scenarios if each.mode in CHOOSING and not each.tau and each.residency == "analytic"]
    specs = dict.fromkeys(DeviceSpec.of(each, member) for each in asked for member in each.members)
    by_law = ((spec, drafting_by_law(spec)) for spec in specs)
    # Devices that differ in what is no matter here are told of once.
    differing = dict.fromkeys(
        f"{spec.hardware} with {spec.model} in batches {told_ranges(found[Law.REALISABLE], MOST)}, "
        f"as published {told_ranges(found[Law.PUBLISHED], MOST)}"
        for spec, found in by_law
        if found and found[Law.REALISABLE] != found[Law.PUBLISHED]
    )
    if not differing:
        return ""
    return f"The answer may turn on the law, as speculating does: it pays on {'; on '.join(differing)}."


def _of_never_served(rows: list[Row]) -> str:
    shares = [row["never_served"] / row["requests"] for row in rows if row["never_served"]]
    if not shares:
        return ""
    return (
        f"In {len(shares)} of {len(rows)} points requests could never be served (up to {max(shares):.1%} of them): "
        "they are longer than the context, or than what a key may ask for, and count as late."
    )


def _of_few(results: Results) -> str:
    """Say where fewer requests were judged than can tell of the share that is asked; seeds together."""
    what = "answers" if isinstance(results.study.question, Capacity) else "places"
    return few_judged([judged_of(runs) for runs in _told_by(results)], results.study.asked_share, what)


def _told_by(results: Results) -> list[list[Finding]]:
    """Return the runs that tell what was asked, those of a place together: of a capacity at the loads that are the
    answers, and not at all that the search tried."""
    if not isinstance(results.study.question, Capacity):
        return [runs for _, runs in by_settings(results.findings)]
    return list(filter(None, (findings_of(row, results.findings) for row in results.answer_rows)))
