"""Release packer: makes the messages of coming releases, so that a device has little left to do at their instants.

A device wakes for each step to cold caches, to which making its release costs some four times what the same does for
several steps at once.
"""

import struct
from collections.abc import Sequence

from msgspec.structs import replace

from serving.cluster.actor_proxies import ReleaseSink
from serving.cluster.streams.sockets import encoder
from serving.device.engine import PackedRelease
from serving.device.token_buffer import TokenBuffer
from serving.types import Release

# How late a release is ends its message, which has one release.
LATE = struct.Struct(">d")


class ReleasePacker:
    """A packer of the releases whose tokens lie in a device's buffers. For the thread of its loop."""

    def __init__(self, tokens: TokenBuffer, sink: ReleaseSink) -> None:
        """`sink` gets the releases."""
        self._tokens, self._sink = tokens, sink
        self._encoder = encoder()

    def pack(self, request_ids: Sequence[str], releases: Sequence[Release]) -> list[PackedRelease]:
        """Return consecutive releases with a token of each request, as many as there are tokens for; they are without
        any yet. A device that is late has no time for it: its releases go together."""
        if self._sink.is_late(releases[0].at_s):
            return []
        rows = self._tokens.rows(request_ids, len(releases))
        whole = [replace(release, chunks=row) for release, row in zip(releases, rows.rows, strict=False)]
        return [PackedRelease(each, rows, self._encoder.encode([each])[: -LATE.size]) for each in whole]

    def send(self, packed: PackedRelease, late_real_s: float) -> bool:
        """Send the next of the packed releases. Return False where its tokens may have changed meanwhile."""
        if not self._tokens.take_row(packed.rows):
            return False
        if not self._sink.send_alone(packed.message + LATE.pack(late_real_s), late_real_s):
            release = packed.release
            assert release.record is not None
            self._sink(replace(release, record=replace(release.record, late_real_s=late_real_s)))
        return True
