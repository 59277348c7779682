"""Departures: the devices that are gone, whose series end once scrapers have had time to read their last counts."""

from math import inf

KEPT_S = 300.0
"""Real seconds for which /metrics keeps the series of a device that is gone: five scrapes, where one comes a minute.
`foreserve load` reads oftener."""


class Departures:
    """Keeps, of devices that are gone and have series, the real instant at which each was first looked at."""

    def __init__(self) -> None:
        self._since_s: dict[int, float] = {}

    def note(self, device: int, gone: bool) -> None:
        """Record whether a device is gone."""
        if gone:
            self._since_s.setdefault(device, inf)
        else:
            self._since_s.pop(device, None)

    def due(self, now_s: float) -> list[int]:
        """Return the devices whose series end at a real instant, each once: they were gone KEPT_S before."""
        self._since_s = {device: min(since_s, now_s) for device, since_s in self._since_s.items()}
        due = [device for device, since_s in self._since_s.items() if now_s - since_s >= KEPT_S]
        for device in due:
            del self._since_s[device]
        return due
