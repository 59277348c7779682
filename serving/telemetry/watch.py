"""Watch over a running emulation: does this host keep the pace (each second), and what will its history be?"""

import asyncio
import time
from collections.abc import Callable

from serving.telemetry.metrics import Metrics
from serving.telemetry.metrics.snapshot import status_of
from serving.telemetry.status_history import EVERY_S, HistoryKeeper

LOOK_S = 1.0
REMIND_S = 60.0
"""Real seconds after which a trouble that goes on is told again."""
AGAIN, OVER = "This host keeps the pace again.", "The load that was too much for this host is over."

Say = Callable[[str], None]


class Watch:
    """Tells `say` when the host becomes too slow for the load, now and then while it is, and when it no longer is."""

    def __init__(self, metrics: Metrics, say: Say) -> None:
        self.metrics, self._say = metrics, say
        self.history = HistoryKeeper()
        self._point_at_s = self._remind_at_s = 0.0
        self._told = False

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            self.look(time.monotonic())
            await asyncio.sleep(LOOK_S)

    def look(self, now_s: float) -> None:
        """Look at a real instant."""
        self.metrics.look(now_s)
        self._tell(now_s)
        if now_s >= self._point_at_s:
            # Absolute, so that points stay EVERY_S apart, unless this process was stopped for longer.
            self._point_at_s = max(now_s, self._point_at_s) if now_s - self._point_at_s > EVERY_S else self._point_at_s
            self._point_at_s += EVERY_S
            self.history.add(status_of(self.metrics))

    def _tell(self, now_s: float) -> None:
        sentence = self.metrics.host.sentence()
        if sentence and (not self._told or now_s >= self._remind_at_s):
            self._say(sentence)
            self._remind_at_s = now_s + REMIND_S
        elif self._told and not sentence:
            self._say(AGAIN if self.metrics.host.is_judged else OVER)
        self._told = bool(sentence)
