"""Another process of this user's on this host, which may end or be stopped at any time."""

import contextlib
import os
import select
import signal
import socket
import struct
import time
from pathlib import Path

# Real seconds after which a stopped process (SIGSTOP, a debugger) is not waited for any longer.
STOPPED_S = 1.0
# Process, user and group (unix(7)).
_CREDENTIALS = struct.Struct("3i")


class Peer:
    """The process of a number, and no other one that has the number later."""

    def __init__(self, pid: int) -> None:
        """Raise ProcessLookupError if there is none."""
        self.pid = pid
        self._file = os.pidfd_open(pid)
        self._stopped_at_s: float | None = None

    @classmethod
    def listening(cls, address: str) -> "Peer | None":
        """Return the process that listens at a Unix socket, if one does."""
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probing:
            probing.connect(address)
            pid, _, _ = _CREDENTIALS.unpack(
                probing.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            )
            return cls(pid)
        return None

    def fileno(self) -> int:
        """Return a descriptor that can be read once the process has ended."""
        return self._file

    def ended(self, timeout_s: float = 0.0) -> bool:
        """Wait for the end of the process; tell whether it has ended."""
        return bool(select.select([self], [], [], timeout_s)[0])

    def is_stopped_for_long(self) -> bool:
        """Tell whether the process has been stopped at each look of the last `STOPPED_S`."""
        now_s = time.monotonic()
        if not self._is_stopped():
            self._stopped_at_s = None
        elif self._stopped_at_s is None:
            self._stopped_at_s = now_s
        return self._stopped_at_s is not None and now_s - self._stopped_at_s > STOPPED_S

    def kill(self) -> None:
        """Kill the process, unless it has ended."""
        with contextlib.suppress(ProcessLookupError):
            self.send(signal.SIGKILL)

    def send(self, number: signal.Signals) -> None:
        """Send the process a signal. Raise ProcessLookupError if it has ended."""
        signal.pidfd_send_signal(self._file, number)

    def close(self) -> None:
        """Stop looking after the process."""
        os.close(self._file)

    def _is_stopped(self) -> bool:
        with contextlib.suppress(OSError):
            return Path(f"/proc/{self.pid}/stat").read_bytes().rpartition(b") ")[2][:1] in b"Tt"
        return False
