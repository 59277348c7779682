"""Do faults and limits name memory tiers on any hardware, and is one that hardware can't have refused by name?"""

import pytest

from device_model.specs.hardware_file import load_hardware
from serving.device.fleet_limits import check_faults, context_held, load_fleet
from serving.scenario.faults import parse_fault
from serving.scenario.fleet import FleetError
from serving.scenario.scenario import Scenario

HARDWARE = {
    "elmoe3d-4gb": "qwen3-30b-a3b",
    **dict.fromkeys(("stratum-s", "a6000", "npu-64t", "a100-8gb"), "olmoe-1b-7b"),
}


WITH_SLOW_TIER = [hardware for hardware in HARDWARE if hardware not in ("a6000", "npu-64t")]


def checked(hardware: str, *faults: str, kv_tier: str = "all") -> tuple[int, int]:
    """Tokens of KV cache, and room for spilled ones, of one device, after its faults are found possible."""
    scenario = Scenario(hardware=hardware, model=HARDWARE[hardware], faults=faults, kv_tier=kv_tier)
    fleet = load_fleet(scenario)
    check_faults(scenario, [spec for spec, _ in fleet], context_held(scenario, fleet))
    ((_, limits),) = fleet
    return limits.kv_capacity_tokens, limits.spill_tokens


@pytest.mark.parametrize("hardware", HARDWARE)
def test_a_tier_is_called_by_its_place_on_any_hardware(hardware: str) -> None:
    held, _ = checked(hardware, *(["slow: left=0.5"] if hardware in WITH_SLOW_TIER else []))
    within, spilled = checked(hardware, kv_tier="fast")
    assert within + spilled == held
    assert checked(hardware, kv_tier="hb") == (within, spilled)


@pytest.mark.parametrize("hardware", HARDWARE)
def test_a_tier_may_fail_by_the_name_that_the_hardware_has_for_it(hardware: str) -> None:
    tiers = load_hardware(hardware).tiers
    if hardware in WITH_SLOW_TIER:
        checked(hardware, f"{tiers.slow}: left=0.5")
    named, placed = (parse_fault(f"{tier}: left=0.5", "It") for tier in (tiers.slow, "slow"))
    assert named.condition == placed.condition and named.is_of_slow_tier
    assert parse_fault(f"{tiers.fast}: left=0.5", "It").condition == parse_fault("fast: left=0.5", "It").condition


def test_half_of_the_fast_tier_may_fail_where_it_has_banks() -> None:
    for hardware in ("elmoe3d-4gb", "stratum-s"):
        checked(hardware, "fast: left=0.5")


@pytest.mark.parametrize(
    ("hardware", "fault", "said"),
    [
        ("a6000", "fast: left=0.5", ["can't be on a6000", "no banks"]),
        ("npu-64t", "fast: left=0.5", ["can't be on npu-64t", "no banks"]),
        ("a6000", "slow: left=0.5", ["can't be on a6000", "reads nothing from its host"]),
        ("npu-64t", "host: left=0.5", ["can't be on npu-64t", "reads nothing from its host"]),
        ("a100-8gb", "fast: left=0.5", ["can't be on a100-8gb", "no banks"]),
        ("elmoe3d-4gb", "hb: left=0.02", ["can't be on elmoe3d-4gb", "one bank"]),
        ("stratum-s", "lpddr: left=0.5", ["can't be on stratum-s", "no memory tier 'lpddr'", "mono3d", "interposer"]),
        ("elmoe3d-4gb", "mono3d: left=0.5", ["can't be on elmoe3d-4gb", "no memory tier 'mono3d'", "lpddr"]),
        ("elmoe3d-4gb", "lost: device=0", ["would leave no device"]),
        ("elmoe3d-4gb", "slow: left=0.5, device=1", ["names device 1", "there are 1"]),
    ],
)
def test_a_fault_that_the_hardware_cannot_have_is_refused_by_name(hardware: str, fault: str, said: list[str]) -> None:
    with pytest.raises(FleetError) as refused:
        checked(hardware, fault)
    assert all(word in str(refused.value) for word in [fault, *said]), str(refused.value)


def test_a_fault_that_leaves_a_request_too_little_room_is_refused() -> None:
    """Requests were promised all that HB holds of a KV cache, and then there were half as many banks."""
    with pytest.raises(FleetError, match=r"'fast: left=0.5', can't be on elmoe3d-4gb: .*(room|promised)"):
        checked("elmoe3d-4gb", "fast: left=0.5", kv_tier="fast")
    checked("elmoe3d-4gb", "fast: left=0.5")
