"""Queries over what a dashboard's variables select.

What steps and requests did is counted in emulated time: a rate of it per emulated second is its rate over that of
`foreserve_emulated_seconds_total`, on each instance. Divisors are guarded: nothing is shown where nothing was counted.
"""

WINDOW = "$__rate_interval"
STEP = "$__interval"
RANGE = "$__range"
FLEET = 'job=~"$job", instance=~"$instance"'
DEVICE = f'{FLEET}, device=~"$device"'
MODEL = f'{FLEET}, model_name=~"$model_name"'
ENGINE = f'{MODEL}, engine=~"$device"'
CLOCK = "foreserve_emulated_seconds_total"
# Of the whole emulator, and of no device.
WHOLE = (
    *(CLOCK, "foreserve_info", "foreserve_speed", "foreserve_slo_", "foreserve_rejections", "foreserve_actor_"),
    "foreserve_host_",
)
# Instances may run at different speeds.
EACH = "instance, device"
HERE = "on (job, instance) group_left ()"


def select(metric: str, *more: str) -> str:
    """Return a metric of what is selected; `more` are matchers."""
    return f"{metric}{{{', '.join([scope(metric), *more])}}}"


def scope(metric: str) -> str:
    """Return the matchers of the variables that a metric has labels for."""
    if metric.startswith("vllm:"):
        return MODEL if "admission_rejections" in metric else ENGINE
    if metric.startswith("foreserve_") and not metric.startswith(WHOLE):
        return DEVICE
    return FLEET


def rate(metric: str, *more: str, window: str = WINDOW) -> str:
    """How fast a counter grows, in real time."""
    return f"rate({select(metric, *more)}[{window}])"


def summed(what: str, by: str = "") -> str:
    """Return the sum of a vector, by labels if there are any."""
    return f"sum by ({by}) ({what})" if by else f"sum({what})"


def speed() -> str:
    """Emulated seconds per real second, of each instance."""
    return f"({rate(CLOCK)} > 0)"


def emulated(metric: str, *more: str, by: str = "") -> str:
    """How fast a counter grows in emulated time."""
    return summed(f"{rate(metric, *more)} / {HERE} {speed()}", by)


def in_emulated(metric: str, by: str = "") -> str:
    """How fast a counter of real seconds grows, in emulated ones."""
    return summed(f"{rate(metric)} * {HERE} {rate(CLOCK)}", by)


def grown(metric: str, *more: str, by: str = "", window: str = WINDOW) -> str:
    """By how much a counter grew."""
    return summed(f"increase({select(metric, *more)}[{window}])", by)


def happened(metric: str, by: str) -> str:
    """By how much a counter of rare events grew, of which there is no series before the first: `increase` counts from a
    series' first point on, so that a series that is new on an emulator that is not counts with all that it has."""
    before = f"offset {WINDOW}"
    new = f"{select(metric)} unless {select(metric)} {before}"
    known = f"count by (instance) ({select(CLOCK)} {before})"
    return summed(f"({new}) and on (instance) {known} or increase({select(metric)}[{WINDOW}])", by)


def ratio(part: str, whole: str, matching: str = "") -> str:
    """One over another, where there is another."""
    return f"{part} / {matching + ' ' if matching else ''}({whole} > 0)"


def share(metric: str, *more: str, by: str = "", window: str = WINDOW) -> str:
    """Return the part of a counter's growth that some of its series have."""
    return ratio(grown(metric, *more, by=by, window=window), grown(metric, by=by, window=window))


def split(metric: str, label: str, by: str = "") -> str:
    """Return a counter's growth, divided by a label into shares."""
    parts = ", ".join(filter(None, (by, label)))
    return ratio(summed(rate(metric), parts), summed(rate(metric), by), f"ignoring ({label}) group_left ()")


def quotient(part: str, whole: str, by: str = "") -> str:
    """Return the growth of one counter over that of another."""
    return ratio(summed(rate(part), by), summed(rate(whole), by))


def mean(histogram: str, by: str = "") -> str:
    """Of what was observed lately."""
    return quotient(f"{histogram}_sum", f"{histogram}_count", by)


def buckets(histogram: str, by: str = "") -> str:
    """How fast a histogram's buckets fill."""
    return summed(rate(f"{histogram}_bucket"), ", ".join(filter(None, (by, "le"))))


def quantile(q: float, histogram: str, by: str = "") -> str:
    """Of what was observed lately."""
    return f"histogram_quantile({q:g}, {buckets(histogram, by)})"


def encoded(metric: str, label: str, states: list[str], by: str = EACH) -> str:
    """Which of the states each is in, as a number from 1 on; 0 for none. A state timeline takes numbers."""
    terms = [select(metric, f'{label}="{state}"') + f" * {n}" for n, state in enumerate(states, 1)]
    return summed(" or ".join(terms), by)


def came(metric: str, by: str) -> str:
    """Where a counter has grown since the last point, or is new on an emulator that is not."""
    now, before = (summed(select(metric) + offset, by) for offset in ("", f" offset {STEP}"))
    known = f"count by ({by.partition(',')[0]}) ({select(CLOCK)} offset {STEP})"
    return f"({now} - {before} > 0) or (({now} > 0 unless {before}) and on (instance) {known})"
