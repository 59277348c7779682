"""Device models alone: is numpy all that they need?"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Imports every module, and asks devices of each kind for a step, with nothing but numpy and Python's own library.
ALONE = r"""
import sys

class Only:
    def find_spec(self, name, path=None, target=None):
        first = name.partition(".")[0]
        if first not in (*sys.stdlib_module_names, "device_model", "numpy"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Only())

from importlib import import_module
from pkgutil import walk_packages
import device_model

for module in walk_packages(device_model.__path__, "device_model."):
    if not module.name.startswith("device_model.validation"):
        import_module(module.name)

from device_model.load import load_device
from device_model.step import StepPlan

for hardware in ("elmoe3d-8gb", "stratum-s", "a6000", "a100-8gb", "npu-64t"):
    device = load_device("auto", hardware, "olmoe-1b-7b")
    assert next(iter(device.probe(StepPlan.of((1, 100))))).latency_s > 0, hardware

readme = open("device_model/README.md", encoding="utf-8").read()
exec(readme.partition("```python\n")[2].partition("```")[0])
assert cost.latency_s > 0
"""


def test_a_device_is_asked_for_a_step_with_numpy_alone() -> None:
    ended = subprocess.run([sys.executable, "-c", ALONE], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
