"""Group testing for the request that crashes the engine: suspects run apart, in halves, until one crashes alone."""

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

MOST_INQUIRIES = 3
"""Inquiries into the same suspects without a result, after which they stay apart until they are done."""


@dataclass(slots=True)
class Trials:
    """The suspects of a crash, in groups, of which one at a time is on trial: only its requests run.

    A group that gets beyond the point of the crash is acquitted; one that crashes is halved, and a request that
    crashes alone is the culprit. A crash that needs two requests together is never seen in halves: after
    `MOST_INQUIRIES` that find nobody, the groups run one after the other, each to its end.
    """

    on_trial: set[str] = field(default_factory=set)
    _groups: deque[list[str]] = field(default_factory=deque)
    _acquitted: set[str] = field(default_factory=set)
    _fruitless: int = 0

    @property
    def allowed(self) -> Collection[str] | None:
        """The only requests that may run now; None: all may."""
        return self.on_trial or None

    def crash(self, suspects: Iterable[str]) -> str | None:
        """Record a crash; return its cause, if that is known now, else have the suspects run apart.

        `suspects`: the requests that were at work, the youngest first.
        """
        found = list(suspects)
        if len(self.on_trial) == 1:
            return self._condemn(next(iter(self.on_trial)))
        if not self.on_trial and self._acquitted.isdisjoint(found):
            self._acquitted, self._fruitless = set(), 0
        accused = [id for id in found if id in self.on_trial] if self.on_trial else found
        half = (len(accused) + 1) // 2
        rest = sorted(self.on_trial.difference(accused))
        self._groups.extendleft((rest, accused[half:], accused[:half]))
        self._next()
        return None

    def passed(self, request_ids: Collection[str]) -> None:
        """Record requests that have got beyond the point of the crash."""
        if self.on_trial and self._fruitless < MOST_INQUIRIES:
            self._acquitted.update(request_ids)
            self.gone(request_ids)

    def gone(self, request_ids: Collection[str]) -> None:
        """Record requests that are done, or that no client waits for any more."""
        if not self.on_trial:
            return
        self.on_trial.difference_update(request_ids)
        for group in self._groups:
            group[:] = [id for id in group if id not in request_ids]
        if not self.on_trial:
            self._next()
            self._fruitless += not self.on_trial

    def _condemn(self, culprit: str) -> str:
        self._fruitless = 0
        self._next()
        return culprit

    def _next(self) -> None:
        self.on_trial = set()
        while self._groups and not self.on_trial:
            self.on_trial = set(self._groups.popleft())
