"""Verdict of a comparison of hardware, in sentences: the fastest, the one with the fewest joules, and by how much."""

from collections.abc import Iterator, Sequence

from serving.simulation.seed_noise import within_noise
from serving.study.questions.lead import gap_of
from serving.study.report.units import scale, share
from serving.study.side_by_side.comparison import HardwareFigures

# Within which figures are alike.
ALIKE = 1.005


def sentences(found: Sequence[HardwareFigures], asked: bool) -> Iterator[str]:
    """Yield the answer's sentences; `asked`: the study has targets of its own.

    Whoever turns requests away is no faster for it: hardware that refuses more comes after hardware that refuses less.
    """
    if len(found) < 2:
        return
    serving = [each for each in found if each["tokens_per_s"]]
    if serving:
        of_what = "a request from arrival to last token, on average"
        yield _least(serving, "e2e_mean_s", "is the fastest", of_what, "as long")
        yield _least(serving, "j_per_token", "takes the fewest joules", "idle ones included", "as many")
    else:
        yield "None of them serves anybody, so that none is faster, or takes fewer joules."
    refusing = [each for each in found if each["refused"]]
    for each in refusing:
        yield (
            f"{each.hardware} turns away {each['refused']:g} of {each['requests']:g} requests, which count for no "
            "latency."
        )
    if asked:
        shares = ", ".join(f"{each.hardware} {share(round(each['attainment'], 4))}" for each in found)
        yield f"Requests within both targets: {shares}."
    if any(len(each.runs) == 1 for each in found):
        yield "One seed cannot tell which of these differences are chance: several can, as --seeds 0 1 2."


def _least(found: Sequence[HardwareFigures], name: str, what: str, of_what: str, as_much: str) -> str:
    """Return the sentence on the hardware with the least of a figure, and on the next: both turn away equally many."""
    fewest = min(each["refused"] for each in found)
    first, *others = sorted((each for each in found if each["refused"] == fewest), key=lambda each: each[name])
    of = scale(name, [each[name] for each in (first, *others[:1])])
    least = f"{of.text(first[name])} ({of_what})"
    if not others:
        return f"{first.hardware} turns away the fewest requests: {least}; figures of the others are of fewer requests."
    second = others[0]
    ratio = second[name] / first[name] if first[name] else 1.0
    if ratio < ALIKE:
        return f"{first.hardware} and {second.hardware} are alike in {_alike(name)}: {least}."
    gap = gap_of(first.runs, second.runs, name, 1)
    if gap.noise is not None and gap.is_alike:
        alike = within_noise(gap.noise, gap.seeds)
        return f"{first.hardware} and {second.hardware} are {alike}, in {_alike(name)}: {least}."
    return (
        f"{first.hardware} {what}: {least}; {second.hardware}, the next, takes {_times(ratio)} times {as_much} "
        f"({of.text(second[name])})."
    )


def _alike(name: str) -> str:
    return "joules" if name == "j_per_token" else "speed"


def _times(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"
