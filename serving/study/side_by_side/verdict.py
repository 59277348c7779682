"""What a comparison of hardware says, in sentences: which is fastest, which takes the fewest joules, by how much."""

from collections.abc import Iterator, Sequence

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
    yield _least(found, "e2e_mean_s", "is the fastest", "a request from arrival to last token, on average", "as long")
    yield _least(found, "j_per_token", "takes the fewest joules", "idle ones included", "as many")
    refusing = [each for each in found if each["refused"]]
    for each in refusing:
        yield (
            f"{each.hardware} turns away {each['refused']:g} of {each['requests']:g} requests, which count for no "
            "latency."
        )
    if asked:
        shares = ", ".join(f"{each.hardware} {share(round(each['attainment'], 4))}" for each in found)
        yield f"Requests within both targets: {shares}."


def _least(found: Sequence[HardwareFigures], name: str, what: str, of_what: str, as_much: str) -> str:
    """Return the sentence on the hardware with the least of a figure, and on the next."""
    first, second, *_ = sorted(found, key=lambda each: (each["refused"], each[name]))
    of = scale(name, [first[name], second[name]])
    ratio = second[name] / first[name] if first[name] else 1.0
    if 1 / ALIKE < ratio < ALIKE:
        return (
            f"{first.hardware} and {second.hardware} are alike in {_alike(name)}: {of.text(first[name])} ({of_what})."
        )
    return (
        f"{first.hardware} {what}: {of.text(first[name])} ({of_what}); {second.hardware}, the next, takes "
        f"{_times(ratio)} times {as_much} ({of.text(second[name])})."
    )


def _alike(name: str) -> str:
    return "joules" if name == "j_per_token" else "speed"


def _times(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"
