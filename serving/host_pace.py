"""Host pace: does this host keep the pace of the devices that it emulates; if not, what would it keep?

One rule for a load run's report and for a server's own console and page. Seconds are emulated.
"""

from dataclasses import dataclass
from typing import NamedTuple

LATENESS_LIMIT = 0.05
"""Share of the modelled latency: above it, latencies are the host's, not the hardware's."""
UNDERRUN_LIMIT = 0.05
"""Share of the released tokens: above it, latencies are the token model's."""
MARGIN = 0.8
"""Of the speed at which lateness would be at its limit."""
AT_ONCE = 4.0
"""How much too slow a host is taken to be at most, where it is known how much is late, and not by how much: what is
proposed then is no less than a fifth of the speed."""
BACKLOG_S = 0.1
"""Mean lateness in real seconds beyond which most of it is a backlog's: that grows for as long as there is too much to
do, so it tells since when the host has been too slow, and not by how much."""
DELIVERY, STEPS, TEXT = CAUSES = ("delivery", "steps", "text")


class HostTrouble(NamedTuple):
    """What the host is too slow at: the cause, a clause that tells by how much, and what to try."""

    cause: str
    what: str
    advice: str


@dataclass(frozen=True, slots=True)
class HostPace:
    """The host's pace over some time; None: not known."""

    speed: float  # Emulated seconds per real second.
    lateness_mean_s: float | None  # From a release's modelled instant to its hand-over at the edge.
    ttft_mean_s: float | None  # As modelled.
    step_mean_s: float | None
    pacing_error_mean_s: float | None
    underruns: int  # Tokens that the token source had not made when the device released them.
    released_tokens: int
    recorded_tokens: int  # Released tokens of recorded answers.

    @property
    def lateness_share(self) -> float | None:
        """Mean lateness over the mean modelled TTFT: the shortest latency in which a delay counts in full.

        Between the tokens of a stream a constant delay cancels out; `pacing_share` has the rest.
        """
        return _share(self.lateness_mean_s, self.ttft_mean_s)

    @property
    def pacing_share(self) -> float | None:
        """Mean pacing error of the devices over their mean modelled step."""
        return _share(self.pacing_error_mean_s, self.step_mean_s)

    @property
    def underrun_share(self) -> float:
        """Underruns over the tokens released, of which it is at most all: those that are still owed count already."""
        return min(1.0, self.underruns / self.released_tokens) if self.released_tokens else 0.0

    def trouble(self, strictness: float = 1.0) -> HostTrouble | None:
        """Return what the host is too slow at, if it is beyond `strictness` x a limit; None if it keeps the pace."""
        for cause, does, share, late_s, name, modelled_s in (
            (DELIVERY, "tokens came out", self.lateness_share, self.lateness_mean_s, "TTFT", self.ttft_mean_s),
            (STEPS, "devices ended their steps", self.pacing_share, self.pacing_error_mean_s, "step", self.step_mean_s),
        ):
            if share is not None and share > LATENESS_LIMIT * strictness:
                what = (
                    f"{does} {_ms(late_s)} late on average, {share:.1%} of the modelled {name} of {_ms(modelled_s)} "
                    f"(limit {LATENESS_LIMIT:.0%})"
                )
                times = share / LATENESS_LIMIT
                return HostTrouble(cause, what, self.slower(min(AT_ONCE, times) if self._queues(late_s) else times))
        if self.underrun_share > UNDERRUN_LIMIT * strictness:
            what = (
                f"{self.underrun_share:.1%} of the tokens were not ready when the device released them "
                f"(limit {UNDERRUN_LIMIT:.0%})"
            )
            # So much of the tokens was ready: a clock slower by as much leaves time for the others.
            return HostTrouble(TEXT, what, self.slower(min(AT_ONCE, 1 / max(1 - self.underrun_share, 0.01))))
        return None

    def _queues(self, late_s: float | None) -> bool:
        """Tell whether what is so many emulated seconds late has mostly waited for what came before it."""
        return late_s is not None and late_s > BACKLOG_S * self.speed

    def slower(self, times: float) -> str:
        """Return what to try where the host took `times` as long as it may: what it takes in real seconds stays, and at
        a lower speed the emulated ones are longer."""
        text = "" if 2 * self.recorded_tokens > self.released_tokens else " (or `--text recorded`)"
        return f"Try `serve --speed {MARGIN * self.speed / max(times, 1.0):.1g}`{text}."


def _share(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole


def _ms(seconds: float | None) -> str:
    return f"{(seconds or 0.0) * 1e3:.3g} ms"
