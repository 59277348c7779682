"""Optional imports of other packages, for what is done nowhere here."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

UNUSED = ("scipy", "sklearn", "librosa")
"""Scipy, and what transformers imports where it is installed and can't be imported without scipy."""


@contextmanager
def without_packages(*names: str) -> Iterator[None]:
    """Let imports of packages fail while the context lasts, as where none is installed; what is there already stays.

    vLLM, and transformers below it, import scipy for audio and the detection of objects: an eighth of the time that
    they take to be imported. Whoever needs a package imports it later.
    """
    missing = [name for name in names if name not in sys.modules]
    for name in missing:
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        for name in missing:
            del sys.modules[name]
