"""Tokens from a device straight to the edges that are processes of their own, past the engine core."""

import contextlib
from collections.abc import Collection

from serving.cluster.streams.sockets import Address
from serving.cluster.streams.stream import Sender
from serving.types import Chunk, Release

# Connections beyond which those are closed that no request wants.
MOST_SENDERS = 64


class EdgeTokens:
    """The requests of such edges, and the connections to these. Any thread may open and close, one at a time send."""

    def __init__(self) -> None:
        self._inboxes: dict[str, Address] = {}
        self._senders: dict[Address, Sender[list[Release]]] = {}

    def __bool__(self) -> bool:
        """Tell whether there are any requests."""
        return bool(self._inboxes)

    def open(self, request_id: str, inbox: Address | None) -> None:
        """Send a request's tokens to its edge's inbox from now on; None for one whose edge has none."""
        if inbox is not None:
            self._inboxes[request_id] = inbox

    def forget(self) -> None:
        """Forget all requests: the device begins anew."""
        self._inboxes.clear()

    def know(self, request_ids: Collection[str]) -> bool:
        """Tell whether there is any of these requests."""
        return any(id in self._inboxes for id in request_ids)

    def close(self, request_ids: Collection[str]) -> None:
        """Send nothing more of these requests."""
        for id in request_ids:
            self._inboxes.pop(id, None)

    def send(self, releases: list[Release]) -> bool:
        """Send edges what they get straight of some releases; tell whether that is all that any client waits for."""
        if not self._inboxes:
            return False
        whole, parts = True, dict[Address, list[Release]]()
        for release in releases:
            chunks = dict[Address, list[Chunk]]()
            for chunk in release.chunks:
                inbox = self._inboxes.get(chunk.request_id)
                if inbox is not None and chunk.direct:
                    chunks.setdefault(inbox, []).append(chunk)
                    continue
                whole = False
                if chunk.finish is not None:
                    self._inboxes.pop(chunk.request_id, None)
            whole = whole and not (release.kv_events or release.unknown)
            for inbox, those in chunks.items():
                parts.setdefault(inbox, []).append(Release(release.device, release.at_s, those))
        for inbox, part in parts.items():
            # Where no connection can be had, the edge asks the engine core for what does not come.
            with contextlib.suppress(OSError):
                self._sender(inbox).send(part)
        return whole

    def _sender(self, inbox: Address) -> Sender[list[Release]]:
        if inbox not in self._senders:
            if len(self._senders) >= MOST_SENDERS:
                # An edge that has taken another's place has another inbox.
                for left in self._senders.keys() - set(self._inboxes.copy().values()):
                    self._senders.pop(left).close()
            self._senders[inbox] = Sender(inbox)
        return self._senders[inbox]
