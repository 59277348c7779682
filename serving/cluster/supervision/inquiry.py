"""Inquiry into a part that dies again and again: is one of its requests the cause?"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from serving.token_source.group_testing import Trials


@dataclass(slots=True)
class Inquiry:
    """An inquiry that decides, after each death of a part, which requests may go on at once, and which one must end.

    One death from outside proves nothing: somebody may have killed the part, and all requests go on. If it dies again,
    the requests without progress since are suspects. Nor does such a death condemn the last suspect, alone by then: it
    has one more try.
    """

    _trials: Trials = field(default_factory=Trials)
    _unproven: set[str] = field(default_factory=set)
    _tried_alone: set[str] = field(default_factory=set)
    _expected: bool = False

    @property
    def open(self) -> bool:
        """Tell whether the progress of requests matters to the inquiry."""
        return bool(self._unproven or self._trials.on_trial)

    @property
    def in_doubt(self) -> bool:
        """Tell whether requests are on trial as the cause of deaths."""
        return bool(self._trials.on_trial)

    def allows(self, request_id: str) -> bool:
        """Tell whether a request may go on now."""
        return self._trials.allowed is None or request_id in self._trials.allowed

    def expect_death(self) -> None:
        """Record that the part's end, which is near, is no request's fault."""
        self._expected = True

    def came_up(self) -> None:
        """Record that the part works again: an end that was expected has come, or comes no more."""
        self._expected = False

    def death(self, at_work: Iterable[str], by_itself: bool) -> str | None:
        """Record a death; return the request that is its cause, if that is known now.

        `at_work`: the requests that the part had, the youngest first. `by_itself`: it ended by an error of its own.
        """
        if self._expected:
            self._expected = False
            return None
        here = list(at_work)
        if not (by_itself or self._trials.on_trial or self._unproven.intersection(here)):
            self._unproven = set(here)
            return None
        if not by_itself and len(self._trials.on_trial) == 1 and not self._tried_alone >= self._trials.on_trial:
            self._tried_alone = set(self._trials.on_trial)
            return None
        suspects = self._trials.on_trial or self._unproven.intersection(here) or set(here)
        self._unproven = set()
        return self._trials.crash(id for id in here if id in suspects)

    def passed(self, request_ids: Collection[str]) -> None:
        """Record requests that have made progress since the part died."""
        self._unproven.difference_update(request_ids)
        self._tried_alone.difference_update(request_ids)
        self._trials.passed(request_ids)

    def gone(self, request_ids: Collection[str]) -> None:
        """Record requests that are done, or that no client waits for any more."""
        self._unproven.difference_update(request_ids)
        self._tried_alone.difference_update(request_ids)
        self._trials.gone(request_ids)
