"""Packages that are not imported for what is done nowhere here."""

import importlib
import sys

import pytest

from serving.process.optional_imports import without_package

PACKAGE = "colorsys"


def test_a_package_is_missing_for_the_time_and_there_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, PACKAGE, raising=False)
    with without_package(PACKAGE), pytest.raises(ImportError):
        importlib.import_module(PACKAGE)
    assert importlib.import_module(PACKAGE).rgb_to_hsv(0.0, 0.0, 1.0)[2] == 1.0


def test_a_package_that_is_there_already_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module(PACKAGE)
    with without_package(PACKAGE):
        assert importlib.import_module(PACKAGE) is module
    assert sys.modules[PACKAGE] is module
