"""Is whoever names a calibration that there is not told of those that would do?"""

import pytest

from device_model.specs.calibrated import GpuCalibration, Locality, Mono3dCalibration, Speculation
from device_model.specs.fitted import fitted, read_calibration
from device_model.specs.law import Law
from device_model.specs.spec import EnergyEstimate, UnknownName

MODELS = "deepseek-v2-lite, glm-4.7-flash, gpt-oss-20b, qwen3-30b-a3b, uniform"


@pytest.mark.parametrize("law", Law)
@pytest.mark.parametrize(
    ("form", "name", "told"),
    [
        (Locality, "qwen3", f"'qwen3' (did you mean qwen3-30b-a3b?); those that exist are {MODELS}; or one of yours"),
        (Speculation, "elmo3d", "'elmo3d' (did you mean elmoe3d?); those that exist are elmoe3d; or one of yours"),
    ],
)
def test_of_what_was_fitted_under_a_law_all_are_told(form, name, told, law):
    with pytest.raises(UnknownName) as raised:
        fitted(form, name, law)
    assert f"There is no calibration {told}" in str(raised.value)


@pytest.mark.parametrize(
    ("form", "exist"),
    [(EnergyEstimate, "xpu-7nm"), (GpuCalibration, "vllm-0.8.1"), (Mono3dCalibration, "stratum")],
)
def test_none_of_another_kind_is_told(form, exist):
    with pytest.raises(UnknownName) as raised:
        read_calibration(form, "mine")
    assert f"There is no calibration 'mine'; those that exist are {exist}; or one of yours" in str(raised.value)


def test_one_of_your_own_is_told_and_one_that_is_broken_is_not(tmp_path, monkeypatch):
    own = tmp_path / "calibration"
    own.mkdir()
    (own / "mine.toml").write_text(
        "mac_pj = 1\nlink_pj_per_bit = 1\nleakage_w_per_pe = 1\ndram_background_w_per_gib = 1\n"
    )
    sources = "[sources]\n" + "".join(
        f'{key} = "x"\n' for key in ("mac_pj", "link_pj_per_bit", "leakage_w_per_pe", "dram_background_w_per_gib")
    )
    (own / "whole.toml").write_text((own / "mine.toml").read_text() + sources)
    monkeypatch.setenv("FORESERVE_SPECS", str(tmp_path))
    with pytest.raises(UnknownName, match="those that exist are whole, xpu-7nm;"):
        read_calibration(EnergyEstimate, "my")
