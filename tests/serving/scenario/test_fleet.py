"""Are devices what was written, and contradictions refused in a sentence?"""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.condition import Condition
from device_model.specs.hardware_file import FOLDER
from device_model.specs.spec import DeviceError, UnknownName
from device_model.step import StepPlan
from serving.device.device_spec import DeviceLimits, DeviceSpec, check_shared
from serving.edge.preflight import prepare
from serving.scenario.faults import Fault
from serving.scenario.fleet import FleetError, Member, described, parse_entry
from serving.scenario.scenario import Scenario, ScenarioError
from serving.usage_error import UsageError

DEFAULT = Member("elmoe3d", "elmoe3d-8gb", "elastic")
names = st.from_regex(r"[a-z][a-z0-9.-]{0,8}", fullmatch=True)


def limits_of(spec: DeviceSpec) -> DeviceLimits:
    return spec.device_limits(spec.load())


@given(st.integers(1, 5), names, names, names | st.just(""))
def test_what_is_described_is_read_back(count: int, system: str, hardware: str, draft: str) -> None:
    members = [Member(system, hardware, "" if draft == "none" else draft)] * count
    plain = DEFAULT._replace(draft="")
    assert parse_entry(described(members), plain, "It") == members


def test_a_count_of_thousands_of_digits_is_refused_like_any_other_that_is_too_large() -> None:
    for count in (0, 257, "9" * 5000):
        with pytest.raises(FleetError, match="and the count from 1 to 256"):
            parse_entry(f"{count} x elmoe3d-4gb", DEFAULT, "It")


def test_what_an_entry_leaves_out_is_as_in_the_scenario() -> None:
    assert parse_entry("elmoe3d-4gb", DEFAULT, "It") == [Member("elmoe3d", "elmoe3d-4gb", "elastic")]
    assert parse_entry("2 x xpu/elmoe3d-4gb+none", DEFAULT, "It") == [Member("xpu", "elmoe3d-4gb", "")] * 2
    assert parse_entry("3x elmoe3d-6gb+eagle", DEFAULT, "It") == [Member("elmoe3d", "elmoe3d-6gb", "eagle")] * 3


@pytest.mark.parametrize(
    "text", ["", "0 x elmoe3d-4gb", "two x elmoe3d-4gb", "a/b/c", "elmoe3d-4gb + elastic", "-1 x a"]
)
def test_an_entry_that_cannot_be_read_is_refused_with_the_syntax(text: str) -> None:
    with pytest.raises(FleetError, match=r"It is .*COUNT x .*HARDWARE"):
        parse_entry(text, DEFAULT, "It")


@pytest.mark.parametrize("draft", ["guess", "non", "quant.toml"])
def test_a_draft_that_there_is_not_is_refused_with_all_that_are_allowed(draft: str) -> None:
    allowed = re.escape("those that exist are eagle, elastic, quant, random, slm, none, auto.") + "$"
    with pytest.raises(UnknownName, match=f"^There is no draft scheme '{draft}'.*{allowed}"):
        Scenario(draft=draft)
    with pytest.raises(
        ScenarioError, match=f"`fleet` is '2 x xpu/elmoe3d-4gb.{draft}': There is .*{allowed}"
    ) as caught:
        Scenario(fleet=("elmoe3d-4gb", f"2 x xpu/elmoe3d-4gb+{draft}"))
    assert caught.value.keys == ("fleet",)


def test_what_the_error_on_a_draft_allows_is_allowed() -> None:
    drafts = dict.fromkeys(("eagle", "elastic", "quant", "random", "slm")) | {"none": "", "auto": "elastic"}
    for draft, meant in drafts.items():
        member = Member("elmoe3d", "elmoe3d-4gb", draft if meant is None else meant)
        assert Scenario(draft=draft, fleet=("elmoe3d-4gb", f"elmoe3d-4gb+{draft}")).members == (member, member)


def test_a_fleet_says_how_many_devices_there_are() -> None:
    fleet = ("2 x elmoe3d-4gb", "xpu/elmoe3d-8gb")
    assert described(Scenario(fleet=fleet).members) == "2 x elmoe3d/elmoe3d-4gb+elastic, 1 x xpu/elmoe3d-8gb"
    assert len(Scenario(fleet=fleet, devices=3).members) == 3
    assert len(Scenario(devices=3).members) == 3
    with pytest.raises(ScenarioError, match="`devices` is 2, and `fleet` has 3"):
        Scenario(fleet=fleet, devices=2)


def test_hardware_names_its_system_wherever_none_is_named() -> None:
    alone = Scenario(hardware="stratum-l", model="mixtral-8x7b")
    assert alone.members == (Member("stratum", "stratum-l", ""),)
    mixed = Scenario(fleet=("elmoe3d-8gb", "stratum-s-256", "2 x a6000", "xpu/elmoe3d-4gb"), model="olmoe-1b-7b")
    assert described(mixed.members) == (
        "1 x elmoe3d/elmoe3d-8gb+elastic, 1 x stratum/stratum-s-256, 2 x gpu/a6000, 1 x xpu/elmoe3d-4gb"
    )
    limits = [limits_of(DeviceSpec.of(mixed, member)) for member in mixed.members]
    assert limits[1].token_s == min(each.token_s for each in limits)
    assert [each.deepest for each in limits[1:4]] == [0, 0, 0]


def test_hardware_may_be_a_file_of_your_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text((FOLDER / "h100.toml").read_text())
    monkeypatch.chdir(tmp_path)
    member = Member("gpu", str(mine), "")
    assert Scenario(hardware="mine.toml", model="olmoe-1b-7b").members == (member,)
    fleet = ("2 x ./mine.toml", f"gpu/{mine}", "./mine.toml+none", "mine.toml")
    members = Scenario(fleet=fleet, model="olmoe-1b-7b").members
    assert members == (member,) * 5
    assert parse_entry(described(members), DEFAULT._replace(draft=""), "It") == list(members)
    shipped = DeviceSpec.of(Scenario(hardware="h100", model="olmoe-1b-7b"), member)
    assert limits_of(shipped) == limits_of(shipped._replace(hardware="h100"))


def test_devices_that_differ_are_priced_each_as_what_it_is() -> None:
    scenario = Scenario(fleet=("elmoe3d-4gb", "elmoe3d-8gb", "xpu/elmoe3d-8gb", "elmoe3d-8gb+none"))
    small, large, xpu, plain = [limits_of(DeviceSpec.of(scenario, member)) for member in scenario.members]
    assert large.token_s < small.token_s < xpu.token_s
    assert (large.deepest, plain.deepest, xpu.deepest) == (22, 0, 0)
    assert xpu.kv_capacity_tokens < small.kv_capacity_tokens < large.kv_capacity_tokens


def test_devices_that_share_an_lpddr_have_less_room_each_and_the_same_bandwidth() -> None:
    spec = DeviceSpec.of(Scenario(), DEFAULT._replace(draft=""))
    alone, shared = limits_of(spec), limits_of(spec._replace(sharers=2))
    assert alone.kv_capacity_tokens / 2 < shared.kv_capacity_tokens < alone.kv_capacity_tokens
    throttled = limits_of(spec.in_condition(Condition(ext_share=0.5)))
    assert throttled.ext_bytes_per_s == pytest.approx(alone.ext_bytes_per_s)
    assert throttled.token_s > alone.token_s
    check_shared([1.0, 1.0, 2.0, 2.0, 3.0], 2)
    with pytest.raises(FleetError, match="Device 1 shares the LPDDR of device 0"):
        check_shared([1.0, 2.0], 2)


def test_a_traced_device_drafts_if_a_draft_is_named() -> None:
    scenario = Scenario(fleet=("elmoe3d-4gb", "elmoe3d-4gb+elastic"), residency="trace")
    assert [member.draft for member in scenario.members] == ["", "elastic"]


@pytest.mark.parametrize(
    ("scenario", "said"),
    [
        (Scenario(fleet=("elmoe3d-4gb", "elmoe3d-5tb")), ["elmoe3d-5tb", "elmoe3d-8gb"]),
        (Scenario(fleet=("abacus/elmoe3d-4gb",)), ["abacus", "xpu"]),
        (Scenario(system="stratum"), ["of the kind mono3d", "elmoe3d-8gb is of the kind hb-xpu"]),
        (Scenario(system="stratum-l"), ["no system 'stratum-l'", "It is hardware", "leave `system` out"]),
        (
            Scenario(hardware="a6000", model="olmoe-1b-7b", devices=2, shared_ext=2),
            ["`shared_ext` is 2", "a6000 has no external memory"],
        ),
        (
            Scenario(hardware="stratum-s", model="qwen3-30b-a3b", placement="topic", usage="published"),
            ["Nobody has published", "a table that was measured"],
        ),
        (Scenario(hardware="stratum-s", model="mixtral-8x7b"), ["does not fit", "93.4 GB", "34.4 GB"]),
        (Scenario(faults=("stall: for=1, device=1",)), ["`faults`", "names device 1", "there are 1"]),
        (Scenario(faults=("hb: left=0.5",), system="xpu"), ["hb_share", "has no HB"]),
        (Scenario(faults=("hb: left=0.01",)), ["hb_share", "one bank"]),
        (Scenario(faults=("lost: device=0",)), ["`faults`", "at least 2"]),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_started(scenario: Scenario, said: list[str]) -> None:
    with pytest.raises((UsageError, DeviceError)) as refused:
        prepare(replace(scenario, http_port=0, grpc_port=0))
    assert all(word in str(refused.value) for word in said), str(refused.value)


def test_the_context_is_what_the_least_of_the_devices_holds() -> None:
    both = prepare(Scenario(fleet=("elmoe3d-4gb", "elmoe3d-8gb"), http_port=0, grpc_port=0))
    both.sock.close()
    assert both.max_model_len <= min(device_limits.kv_capacity_tokens for _, device_limits in both.fleet)
    assert [spec.hardware for spec, _ in both.fleet] == ["elmoe3d-4gb", "elmoe3d-8gb"]


def test_a_fault_of_no_kind_is_refused_with_the_kinds() -> None:
    with pytest.raises(ScenarioError, match=r"An entry of `faults`, 'fire: at=3', has no kind .* stall"):
        Scenario(faults=("fire: at=3",))


def test_a_router_that_cannot_be_is_refused_with_its_key() -> None:
    with pytest.raises(ScenarioError, match="`router` is 'dice'"):
        Scenario(router="dice")


def test_a_fault_leaves_what_it_says() -> None:
    spec = DeviceSpec.of(Scenario(), DEFAULT._replace(draft=""))
    sound = limits_of(spec)
    hb = limits_of(spec.in_condition(Fault("hb", 0.5).condition))
    assert hb.kv_capacity_tokens < sound.kv_capacity_tokens and hb.token_s > sound.token_s
    slow = limits_of(spec.in_condition(Fault("lpddr", 0.5).condition))
    assert slow.prompts.prompt_s(1, 1) > 1.5 * sound.prompts.prompt_s(1, 1)


def test_a_law_that_nothing_obeys_is_refused() -> None:
    with pytest.raises(ScenarioError, match="`law` is 'published', and no device is one of its paper's"):
        Scenario(law="published", hardware="stratum-l")
    with pytest.raises(ScenarioError, match="a real cache serves what it holds"):
        Scenario(law="published", residency="trace", draft="none")
    with pytest.raises(ScenarioError, match="`law` is 'mine': it must be realisable or published"):
        Scenario(law="mine")


@pytest.mark.parametrize(
    "key, value", [("acceptance", "measured"), ("tau", 4), ("depth", "3"), ("depth", "auto"), ("objective", "energy")]
)
def test_what_is_about_drafts_is_refused_where_nothing_drafts(key: str, value: object) -> None:
    plain: tuple[dict[str, str], ...] = ({"hardware": "npu-64t"}, {"hardware": "stratum-l"}, {"draft": "none"})
    for device in plain:
        with pytest.raises(ScenarioError, match=f"`{key}` is set, and nothing drafts") as refused:
            Scenario(**device, **{key: value})  # type: ignore[arg-type]
        assert refused.value.keys == (key, "draft")
    Scenario(fleet=("npu-64t", "elmoe3d-4gb"), **{key: value})  # type: ignore[arg-type]


def test_a_device_is_priced_under_its_scenarios_law() -> None:
    costs = {}
    for law in ("realisable", "published"):
        scenario = Scenario(law=law, hardware="elmoe3d-4gb")
        device = DeviceSpec.of(scenario, scenario.members[0]).load().device
        costs[law] = device.probe(StepPlan.of(*[(1, 1024)] * 16)).first
    assert costs["published"].latency_s < 0.8 * costs["realisable"].latency_s
    assert costs["published"].expert_hits > 2 * costs["realisable"].expert_hits
