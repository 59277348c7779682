"""Is the AR speedup over the xPU what ELMoE-3D, Table 3 (MT-Bench, 1k context) prints for Elastic-SD?"""

import numpy as np
import pytest

from device_model.spec import EnergyEstimate, Hardware, Locality, Model
from device_model.spec_file import SPECS, read_named
from device_model.step import StepPlan
from device_model.systems import elmoe3d, xpu

# (HB in GB, batch): phi_ar. The other two cells of these rows are withheld, and stay unseen.
PHI_AR = {(4, 1): 3.08, (4, 8): 2.31, (4, 16): 2.13, (8, 1): 4.77, (8, 4): 3.78, (8, 8): 3.56}
MODEL = read_named(Model, "model", "qwen3-30b-a3b", SPECS / "models")
LOCALITY = read_named(Locality, "calibration", MODEL.calibration, SPECS / "calibration")
ESTIMATE = read_named(EnergyEstimate, "calibration", "xpu-7nm", SPECS / "calibration")


def relative_error(cell, locality):
    hb_gb, batch = cell
    hardware = read_named(Hardware, "hardware", f"elmoe3d-{hb_gb}gb", SPECS / "hardware")
    plan = StepPlan.of(*[(1, 1024)] * batch)
    slow, fast = (s.Device(hardware, MODEL, locality, ESTIMATE).probe(plan).latency_s[0] for s in (xpu, elmoe3d))
    return slow / fast / PHI_AR[cell] - 1


def mean_error(locality):
    return np.mean([abs(relative_error(cell, locality)) for cell in PHI_AR])


@pytest.mark.parametrize("cell", PHI_AR, ids=lambda c: f"{c[0]}gb-batch{c[1]}")
def test_ar_speedup_of_qwen3_is_near_the_published_one(cell):
    assert abs(relative_error(cell, LOCALITY)) < 0.025


def test_the_calibration_is_what_fitting_gives():
    fitted = mean_error(LOCALITY)
    assert fitted == pytest.approx(0.010, abs=5e-4)
    for step in (-0.001, 0.001):
        assert fitted <= mean_error(Locality(LOCALITY.hit_exponent + step, LOCALITY.saturation_exponent))
    for saturation in (6, 8, 12, 16, 100):
        for exponent in (0.243, 0.245, 0.246):
            assert fitted <= mean_error(Locality(exponent, saturation))
