"""Progress of a start, which may take a while on a busy machine: every few seconds a line says what is waited for."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType

EVERY_S = 5.0


class StartProgress:
    """Says lines of progress; while nothing new is said, it says how long the last one has taken."""

    def __init__(self, say: Callable[[str], None], every_s: float = EVERY_S, began_s: float | None = None) -> None:
        """Count from `began_s` on, on the monotonic clock; from now if there is none."""
        self._say, self._every_s = say, every_s
        self._began_s = time.monotonic() if began_s is None else began_s
        self._stage = ""
        # Not the event loop: imports keep that from everything else for seconds.
        self._over = threading.Event()
        self._saying = threading.Lock()
        self._thread = threading.Thread(target=self._repeat, daemon=True)

    def __enter__(self) -> "StartProgress":
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.done()

    def __call__(self, line: str) -> None:
        """Say a line."""
        self._stage = line
        self._tell(line)

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        """Say nothing while the context lasts: a fork of this process could not say anything if it was forked in the
        middle of a line."""
        with self._saying:
            yield

    def waits_for(self, stage: str) -> None:
        """Say `stage` with the next line, unless something else is waited for by then."""
        self._stage = stage

    def done(self) -> float:
        """Say nothing more; return the real seconds that all took."""
        self._over.set()
        return time.monotonic() - self._began_s

    def _repeat(self) -> None:
        while not self._over.wait(self._every_s):
            self._tell(f"{time.monotonic() - self._began_s:5.0f} s  {self._stage}")

    def _tell(self, line: str) -> None:
        with self._saying:
            self._say(line)
