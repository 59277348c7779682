"""Load of the token sources: the share of time that their streams need, and whether more put them behind."""

from collections import Counter
from collections.abc import Callable, Collection
from heapq import heapify, heapreplace

# Share of the source's time: beyond it a slow step, or a long prompt, leaves devices without tokens.
MOST = 0.6
# Real seconds for which the source counts as behind after a token was not there when its device released it.
BEHIND_S = 2.0
# Real seconds of a step of the source, and more for each sequence in it, until it has told its own: foreserve-moe on
# one core of 2020.
STEP_S, EACH_S = 0.0035, 0.0003


class SourceLoad:
    """Streams of all sources by device, and what a second of them costs each, as they are shared out equally.

    A source makes a token of each stream in a step, so steps are as frequent as the fastest device wants tokens. The
    streams that are `coming`, each on a device that is not chosen yet, count as well.
    """

    def __init__(
        self,
        rate: Callable[[int, int], float],
        next_stream: Callable[[], tuple[float, float]],
        devices: Callable[[], Collection[int]],
        sources: Callable[[], int],
    ) -> None:
        """`rate(device, streams)`: tokens per real second for each of `streams` streams of a device. `next_stream()`:
        real seconds until the first token of a request that comes now, and its tokens per real second from then on.
        `devices()`: those that take requests; `sources()`: how many are up."""
        self._rate, self._next_stream, self._devices, self._sources = rate, next_stream, devices, sources
        self._streams: Counter[int] = Counter()
        self.coming = 0
        self._behind_until_s = 0.0
        self._step_s, self._each_s = STEP_S, EACH_S

    def begin(self, device: int) -> None:
        """Count one more stream."""
        self._streams[device] += 1

    def end(self, device: int) -> None:
        """Count one stream less."""
        self._streams[device] -= 1

    def learn(self, step_s: float = STEP_S, each_s: float = EACH_S) -> None:
        """Set a source's real seconds of a step, and more for each sequence in it; what is believed without any."""
        self._step_s, self._each_s = step_s, each_s

    def underrun(self, now_s: float) -> None:
        """Record a token that came too late, at a real instant."""
        self._behind_until_s = now_s + BEHIND_S

    def behind(self, now_s: float, tokens: int, more: int = 1) -> bool:
        """Tell whether the sources are behind at a real instant, or would be with so many `more` streams, which come
        together, of so many tokens each.

        Idle ones are not, whatever was before. There a single stream has a source for itself, and no prompt of another
        comes between its steps: it is in time if its last token is. Where no source is up, nothing is.
        """
        if not (sources := self._sources()):
            return True
        if not self._streams.total() + self.coming:
            first_s, rate = self._next_stream()
            of_source = -(-more // sources)
            if not rate or tokens * (self._step_s + of_source * self._each_s - 1 / rate) > first_s:
                return True
            return more > 1 and self._share(self._with(more), sources) > MOST
        return now_s < self._behind_until_s or self._share(self._with(more), sources) > MOST

    def _with(self, more: int) -> Counter[int]:
        """Return the streams by device with those that are coming and so many more, each on the one that has fewest by
        then."""
        fewest = [(self._streams[device], device) for device in self._devices()]
        heapify(fewest)
        for _ in range(self.coming + more if fewest else 0):
            count, device = fewest[0]
            heapreplace(fewest, (count + 1, device))
        return self._streams | Counter({device: count for count, device in fewest})

    def _share(self, streams: Counter[int], sources: int) -> float:
        """Return the share of its time that each of so many sources needs for these streams by device."""
        rates = {device: self._rate(device, count) for device, count in streams.items() if count > 0}
        tokens_per_s = sum(streams[device] * rate for device, rate in rates.items())
        return max(rates.values(), default=0.0) * self._step_s + tokens_per_s / sources * self._each_s
