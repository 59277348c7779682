"""Imports in the background, while what started them waits for other processes."""

import contextlib
import threading
from collections.abc import Iterator
from importlib import import_module


@contextlib.contextmanager
def importing(*modules: str) -> Iterator[None]:
    """Import modules in a thread while the context lasts, and wait for them at its end. One that fails, fails again for
    who needs it, where that can be told."""
    thread = threading.Thread(target=_import, args=[modules], daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def _import(modules: tuple[str, ...]) -> None:
    for name in modules:
        with contextlib.suppress(Exception):
            import_module(name)
