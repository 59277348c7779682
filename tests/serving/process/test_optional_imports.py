"""Packages that are not imported for what is done nowhere here."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from serving.process.optional_imports import UNUSED, without_packages

PACKAGE = "colorsys"


def test_a_package_is_missing_for_the_time_and_there_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, PACKAGE, raising=False)
    with without_packages(PACKAGE), pytest.raises(ImportError):
        importlib.import_module(PACKAGE)
    assert importlib.import_module(PACKAGE).rgb_to_hsv(0.0, 0.0, 1.0)[2] == 1.0


def test_a_package_that_is_there_already_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module(PACKAGE)
    with without_packages(PACKAGE):
        assert importlib.import_module(PACKAGE) is module
    assert sys.modules[PACKAGE] is module


@pytest.mark.slow
def test_vllm_is_imported_where_scikit_learn_is_installed(tmp_path: Path) -> None:
    """Transformers imports it where it finds it, and it can't be imported without scipy."""
    package = tmp_path / "sklearn"
    package.mkdir()
    (package / "__init__.py").write_text(
        "__version__ = '1.7.2'\nfrom scipy.sparse import csr_array\n", encoding="utf-8"
    )
    (package / "metrics.py").write_text("roc_curve = None\n", encoding="utf-8")
    code = (
        "from serving.process.optional_imports import UNUSED, without_packages\n"
        "with without_packages(*UNUSED):\n"
        "    from transformers import GenerationMixin\n"
        "assert importlib.util.find_spec('sklearn').origin.startswith(sys.argv[1])\n"
    )
    assert "sklearn" in UNUSED
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    command = [sys.executable, "-c", "import importlib.util, sys\n" + code, str(tmp_path)]
    subprocess.run(command, env=env, check=True, timeout=120)
