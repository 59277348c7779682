"""Faults of emulated hardware: what a user writes, and when each begins and ends.

slow: left=0.4, device=0, at=10, for=30    the slow tier's bandwidth is throttled to 40 %
fast: left=0.75                            a quarter of the fast tier's banks is lost
lpddr: left=0.4                            as `slow`, of hardware that calls a tier so
clock: left=0.6, at=60                     too hot: the die runs at 60 % of its frequency
stall: for=2, rate=1.5                     devices stand still for 2 s, each 1.5 times a minute on average
lost: device=1, at=20                      the device is gone, and all that it held

When a share comes or goes, what is left of the step at hand is made at the new pace (`serving.device.step_underway`).
"""

import heapq
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple
from typing import Any, NamedTuple

from device_model.condition import Condition
from device_model.specs.hardware_file import tiers_of_kinds
from serving.key_values import TermError, parse_terms
from serving.nearest_name import meant
from serving.types import NEVER

FAST_SHARE, SLOW_SHARE = "hb_share", "ext_share"
NAMED = {name: share for tiers in tiers_of_kinds() for name, share in zip(tiers, (FAST_SHARE, SLOW_SHARE), strict=True)}
"""Faults of a tier by the name that some hardware has for it, as `SHARES`."""
SHARES = {"slow": SLOW_SHARE, "fast": FAST_SHARE, "clock": "clock_share", **NAMED}
"""What of a `Condition` a fault of a kind leaves a part of; of other kinds it leaves all, or nothing."""
DEGRADING = tuple(SHARES)
STALL, LOST = "stall", "lost"
ANYWHERE = ("slow", "fast", "clock", STALL, LOST)
"""The kinds that have one name on all hardware."""
KINDS = (*DEGRADING, STALL, LOST)
MINUTE_S = 60.0
MOST_A_MINUTE = 600.0
LEAST_A_MINUTE = 1e-6
MOST_S = 1e9
"""Of an instant, or a duration."""
LEAST_LEFT = 0.01
"""Of any share, however many faults there are at once: with less, a step would take hours."""
TERMS: dict[str, type[int] | type[float]] = {"left": float, "device": int, "at": float, "for": float, "rate": float}


class Fault(NamedTuple):
    """A fault of `device`, or of each (None): `at_s` emulated seconds from when it is declared, for `for_s`. With a
    `rate_per_minute` it comes at random instead, and again once it has ended. `left` is the share that remains."""

    kind: str
    left: float = 1.0
    device: int | None = None
    at_s: float = 0.0
    for_s: float = NEVER
    rate_per_minute: float = 0.0

    def __str__(self) -> str:
        terms = [f"left={self.left:g}"] if self.kind in DEGRADING else []
        terms += [] if self.device is None else [f"device={self.device}"]
        terms += [f"rate={self.rate_per_minute:g}"] if self.rate_per_minute else [f"at={self.at_s:g}"]
        terms += [] if self.for_s == NEVER else [f"for={self.for_s:g}"]
        return f"{self.kind}: {', '.join(terms)}"

    @property
    def condition(self) -> Condition:
        """Return the condition in which the fault leaves a device."""
        return Condition(**{SHARES[self.kind]: self.left}) if self.kind in DEGRADING else Condition()

    @property
    def is_of_slow_tier(self) -> bool:
        """Tell whether it is one of the slow tier, which devices may share."""
        return SHARES.get(self.kind) == SLOW_SHARE


class FaultEvent(NamedTuple):
    """A fault begins or ends on a device at emulated instant `at_s`; the end of an occurrence has the `number` of its
    begin."""

    at_s: float
    number: int
    begins: bool
    device: int


def parse_faults(texts: Iterable[str]) -> tuple[Fault, ...]:
    """Return the faults of a scenario. Raise `TermError`."""
    return tuple(parse_fault(text, "An entry of `faults`") for text in texts)


def parse_fault(text: str, what: str) -> Fault:
    """Return the fault that `text` describes. Raise `TermError`, which begins with `what`."""
    kind, _, rest = (part.strip() for part in text.partition(":"))
    what = f"{what}, {text!r},"
    if kind not in KINDS:
        allowed = f"{', '.join(ANYWHERE)}, or with the name of a memory tier ({', '.join(sorted(NAMED))})"
        raise TermError(f"{what} has no kind that exists: it must begin with {allowed}{meant(kind, KINDS)}.")
    terms: dict[str, Any] = {**parse_terms(rest, TERMS, what)}
    for wrong, sentence in _rules(kind, terms):
        if wrong:
            raise TermError(f"{what} {sentence}.")
    return Fault(
        kind=kind,
        left=terms.get("left", 1.0),
        device=terms.get("device"),
        at_s=terms.get("at", 0.0),
        for_s=terms.get("for", NEVER),
        rate_per_minute=terms.get("rate", 0.0),
    )


def _rules(kind: str, terms: dict[str, Any]) -> list[tuple[bool, str]]:
    """Return what is wrong with terms, and how to put it."""
    degrades = kind in DEGRADING
    return [
        (
            degrades and not LEAST_LEFT <= terms.get("left", 0.0) <= 1,
            f"needs left=..., the share that is left: at least {LEAST_LEFT:g}, at most 1",
        ),
        (not degrades and "left" in terms, "takes no left=..., as nothing is left"),
        (kind == STALL and "for" not in terms, "needs for=..., the emulated seconds for which the device stands still"),
        (kind == LOST and "device" not in terms, "needs device=..., the index of the device that is lost"),
        ("rate" in terms and "at" in terms, "takes at=... or rate=..., not both"),
        ("rate" in terms and "for" not in terms, "has a rate, so it needs for=..., to be over before it comes again"),
        (not 0 <= terms.get("at", 0.0) <= MOST_S, f"has a time that is not 0 or later, or beyond {MOST_S:g} s"),
        (not 0 < terms.get("for", 1.0) <= MOST_S, f"has a duration that is not above 0, or beyond {MOST_S:g} s"),
        (
            not LEAST_A_MINUTE <= terms.get("rate", 1.0) <= MOST_A_MINUTE,
            f"needs a rate above 0 (from {LEAST_A_MINUTE:g} on) and of at most {MOST_A_MINUTE:g}",
        ),
        (terms.get("device", 0) < 0, "names a device by an index below 0"),
    ]


def events(fault: Fault, devices: Iterable[int], seed: int, told_at_s: float = 0.0) -> Iterator[FaultEvent]:
    """Yield the events of a fault that was told at emulated instant `told_at_s`: in order, without end if it is random;
    "each" means all of `devices`. Equal seeds give equal events."""
    number = iter(range(2**62))
    streams = [
        _of_device(fault, device, told_at_s, lambda: next(number), random.Random(f"{seed} {device} {fault}"))
        for device in (devices if fault.device is None else [fault.device])
    ]
    return heapq.merge(*streams, key=lambda event: (event.at_s, event.begins))


def _of_device(
    fault: Fault, device: int, told_at_s: float, number: Callable[[], int], rng: random.Random
) -> Iterator[FaultEvent]:
    at_s = told_at_s + fault.at_s
    while True:
        if fault.rate_per_minute:
            at_s += rng.expovariate(fault.rate_per_minute / MINUTE_S)
        occurrence = number()
        yield FaultEvent(at_s, occurrence, True, device)
        at_s += fault.for_s
        if at_s == NEVER:
            return
        yield FaultEvent(at_s, occurrence, False, device)
        if not fault.rate_per_minute:
            return


def condition_of(active: Iterable[Fault]) -> Condition:
    """Return the condition under several faults: shares multiply, to no less than `LEAST_LEFT`."""
    left = Condition()
    for fault in active:
        left = left.also(fault.condition)
    return Condition(*(max(LEAST_LEFT, share) for share in astuple(left)))
