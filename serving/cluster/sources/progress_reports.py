"""Progress reports: a device tells the token sources how far it is, and asks again for tokens that don't come."""

import time
from collections.abc import Mapping

from serving.cluster.streams.rpc import RpcTeller
from serving.cluster.streams.sockets import Address
from serving.device.token_buffer import TokenBuffer

# Real seconds between a device's reports.
REPORT_S = 0.1
# Real seconds without a token of a request that is owed some, after which the device asks its source for them again.
REMIND_S = 4.0


class ProgressReports:
    """Reports of a device's progress to each token source, so that the source may run on.

    One thread calls `report` every `REPORT_S`; `begin` and `follow` any other.
    """

    def __init__(self, device: int, ahead: int) -> None:
        """`device`: its index; `ahead`: tokens that a request may be ahead of it."""
        self._device, self._stride = device, max(1, ahead // 16)
        self._tokens, self._sources = TokenBuffer(), dict[int, Address]()
        self._tellers: dict[int, tuple[Address, RpcTeller]] = {}
        # What was reported of which buffers, and since when nothing has come of a request, by id.
        self._told_of, self._reported = self._tokens, dict[tuple[int, str], int]()
        self._awaited: dict[str, tuple[int, float]] = {}

    def begin(self, tokens: TokenBuffer, sources: dict[int, Address]) -> None:
        """Report on these buffers from now on; `sources`: the address of each token source, by its index."""
        self._tokens, self._sources = tokens, sources

    def follow(self, sources: dict[int, Address]) -> None:
        """Report to these addresses from now on; a source at another address has heard nothing yet."""
        self._sources = sources

    def report(self) -> None:
        """Send the progress since the last report, and remind the sources of tokens that are long overdue."""
        self._connect(self._sources)
        tokens = self._tokens
        if tokens is not self._told_of:
            # Requests begin again in other buffers, where their clients are: this may be before what was reported.
            self._told_of, self._reported, self._awaited = tokens, {}, {}
        taken = tokens.taken()
        there = {(source, id) for source, positions in taken.items() for id in positions}
        self._reported = {key: position for key, position in self._reported.items() if key in there}
        for source, positions in taken.items():
            if source in self._tellers and (news := self._news(source, positions)):
                self._tellers[source][1].tell("taken", news)
        self._remind(tokens.awaited(), time.monotonic())

    def _connect(self, sources: Mapping[int, Address]) -> None:
        for index in [index for index, (known, _) in self._tellers.items() if sources.get(index) != known]:
            self._tellers.pop(index)[1].close()
            self._reported = {key: position for key, position in self._reported.items() if key[0] != index}
        for index in sources.keys() - self._tellers.keys():
            self._tellers[index] = (sources[index], RpcTeller(sources[index]))

    def _news(self, source: int, positions: dict[str, int]) -> dict[str, int]:
        """Return all new positions, once one of them is so by the stride: the source goes on with many at once."""
        steps = {id: position - self._reported.get((source, id), 0) for id, position in positions.items()}
        if max(steps.values(), default=0) < self._stride:
            return {}
        news = {id: positions[id] for id, step in steps.items() if step}
        self._reported |= {(source, id): position for id, position in news.items()}
        return news

    def _remind(self, awaited: dict[str, int], now_s: float) -> None:
        """Ask for tokens again that have not come for `REMIND_S`: a message of theirs, or of their request's progress,
        may be lost, and neither side would go on by itself."""
        before, self._awaited = self._awaited, {}
        for id, received in awaited.items():
            known, since_s = before.get(id, (received, now_s))
            since_s = since_s if known == received else now_s
            if now_s - since_s >= REMIND_S:
                since_s = now_s
                # Nobody else has the request; which source has one without tokens is not known here.
                for _, teller in self._tellers.values():
                    teller.tell("remind", id, received, self._device)
            self._awaited[id] = (received, since_s)
