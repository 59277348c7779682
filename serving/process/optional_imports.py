"""Optional imports of other packages, for what is done nowhere here."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_package(name: str) -> Iterator[None]:
    """Let imports of a package fail while the context lasts, as where it isn't installed, unless it is there already.

    vLLM, and transformers below it, import scipy for audio and the detection of objects: an eighth of the time that
    they take to be imported. Whoever needs the package imports it later.
    """
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]
