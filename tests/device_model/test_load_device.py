"""Does `load_device` find what is there, and name what there is?"""

import pytest

from device_model.load import load_device, obeys_laws, own_draft, systems_on, systems_with_laws
from device_model.specs.spec import SpecError, UnknownName
from device_model.step import DeviceModel


def test_a_device_is_loaded_by_names():
    device: DeviceModel = load_device("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b")
    assert device.ext_bytes_per_s == pytest.approx(101.4e9, rel=1e-3)
    assert load_device("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b").max_context_tokens == 40960
    assert device.kv_capacity_tokens > 400_000


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (
            ("elmoe", "elmoe3d-4gb", "qwen3-30b-a3b"),
            "There is no system 'elmoe' (did you mean elmoe3d?); those that exist are elmoe3d, gpu, hb_xpu, logicpim, "
            "nmp, npu, offload, pim, stratum, xpu, auto.",
        ),
        (("xpu", "dgx", "qwen3-30b-a3b"), "There is no hardware 'dgx'; those that exist are 2xh100, 4xh100, a100-8gb,"),
        (
            ("xpu", "elmoe3d-4gb", "gpt"),
            "There is no model 'gpt' (did you mean gpt-oss-20b?); those that exist",
        ),
        (("__init__", "elmoe3d-4gb", "qwen3-30b-a3b"), "There is no system '__init__'"),
        (
            ("xpu", "elmoe3d-4gb", "./mine.toml"),
            "There is no model './mine.toml', as it goes by a name and not by a path. Allowed is mine, once the file "
            "is models/mine.toml in the folder that FORESERVE_SPECS names; those that exist are ",
        ),
        (
            ("./mine.toml", "elmoe3d-4gb", "qwen3-30b-a3b"),
            "There is no system './mine.toml', a file of figures, as each is one of code, systems/NAME.py in "
            "device_model; those that exist are elmoe3d, ",
        ),
        (("os", "elmoe3d-4gb", "qwen3-30b-a3b"), "There is no system 'os'"),
    ],
)
def test_unknown_names_are_answered_with_those_that_exist(names, said):
    with pytest.raises(UnknownName) as caught:
        load_device(*names)
    assert said in str(caught.value)


def test_hardware_names_its_system():
    named, own = (load_device(system, "elmoe3d-8gb", "qwen3-30b-a3b") for system in ("elmoe3d", "auto"))
    assert type(own) is type(named) and own.tiers == ("hb", "lpddr")


def test_hardware_named_as_a_system_is_answered_with_how_to_name_it():
    with pytest.raises(UnknownName, match=r"no system 'elmoe3d-8gb'\. It is hardware, whose file names its system"):
        load_device("elmoe3d-8gb", "elmoe3d-8gb", "qwen3-30b-a3b")


def test_a_kind_that_does_not_exist_is_answered_with_those_that_do(tmp_path, monkeypatch):
    (tmp_path / "mine.toml").write_text('# Beads.\nkind = "abacus"\n', encoding="utf-8")
    monkeypatch.setattr("device_model.specs.hardware_file.FOLDER", tmp_path)
    with pytest.raises(
        SpecError, match=r"/mine\.toml, line 2: kind is 'abacus'; allowed are gpu, hb-xpu, mono3d, npu, offload\.$"
    ):
        load_device("auto", "mine", "qwen3-30b-a3b")


def test_each_system_can_run_its_own_draft_and_those_of_elmoe3d_obey_laws() -> None:
    systems = [name for kind in ("hb-xpu", "gpu", "mono3d", "npu", "offload") for name in systems_on(kind)]
    drafting = {name: draft for name in systems if (draft := own_draft(name))}
    assert drafting == {"elmoe3d": "elastic", "hb_xpu": "eagle", "logicpim": "eagle", "nmp": "eagle", "pim": "eagle"}
    for name, draft in drafting.items():
        assert load_device(name, "elmoe3d-8gb", "qwen3-30b-a3b", draft).draft is not None
    assert systems_with_laws() == sorted([*drafting, "xpu"]) == systems_on("hb-xpu")
    assert own_draft("unheard-of") is None and not obeys_laws("unheard-of")
