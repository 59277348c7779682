"""Is a device that can't have all policies refused before any run, by the option that names it?"""

import pytest

from serving.reports.policy_needs import check_device
from serving.reports.policy_report import _signed
from serving.scenario.scenario import Scenario
from serving.usage_error import UsageError


@pytest.mark.parametrize("hardware", ["a6000", "stratum-s", "npu-64t", "a100-8gb"])
def test_hardware_that_cannot_have_all_policies_is_refused_by_its_option(hardware: str) -> None:
    with pytest.raises(UsageError, match=f"^--hardware is {hardware}, .* allowed is ELMoE-3D's hardware"):
        check_device(Scenario(hardware=hardware))


def test_a_system_without_hb_and_a_model_without_experts_are_refused() -> None:
    with pytest.raises(UsageError, match="whose system nmp has no fast tier"):
        check_device(Scenario(system="nmp"))
    with pytest.raises(UsageError, match=r"^--model is qwen2\.5-1\.5b, which has no experts"):
        check_device(Scenario(model="qwen2.5-1.5b"))


@pytest.mark.parametrize("hardware", ["elmoe3d-4gb", "elmoe3d-6gb", "elmoe3d-8gb"])
def test_elmoe_3ds_hardware_is_allowed(hardware: str) -> None:
    check_device(Scenario(hardware=hardware))


def test_a_share_has_its_sign_and_no_sign_of_nothing() -> None:
    assert [_signed(share) for share in (0.008, -0.008, -0.0, -0.0001)] == ["+0.8", "-0.8", "+0.0", "+0.0"]
