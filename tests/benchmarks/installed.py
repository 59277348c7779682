"""Programs to be measured beside: installed into an environment of their own, as what they need and ours differ."""

import subprocess
import sys
from pathlib import Path

import pytest

INSTALL_S = 900


def installed(package: str, folder: Path) -> Path:
    """Install a package of PyPI's; return the folder of its programs. Skip the test where that can't be."""
    programs = folder / "bin"
    for command in (
        [sys.executable, "-m", "venv", folder],
        [programs / "python", "-m", "pip", "install", "-q", package],
    ):
        made = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S)
        if made.returncode:
            pytest.skip(f"{package} cannot be installed here: {made.stderr.strip()[-300:]}")
    return programs
