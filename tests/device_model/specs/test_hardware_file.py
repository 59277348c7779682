"""Is hardware of a size between the published ones what lies between, other sizes refused, a file of yours read?"""

from dataclasses import fields, replace

import pytest

from device_model.load import load_device
from device_model.specs.hardware_file import FOLDER, load_hardware
from device_model.specs.kinds.hb_xpu import Hardware
from device_model.specs.spec import Contradiction, SpecError, UnknownName
from device_model.specs.spec_file import path_of, read_named
from device_model.step import StepPlan

WORDS = ("kind", "system", "energy_estimate", "speculation")
QUARTERS = [4 + i / 4 for i in range(1, 16)]
FIGURES = [field.name for field in fields(Hardware) if field.name not in WORDS]
SMALL, LARGE = (read_named(Hardware, "hardware", f"elmoe3d-{gib}gb", FOLDER) for gib in (4, 8))


@pytest.mark.parametrize("gib", QUARTERS)
def test_each_quarter_of_a_gigabyte_is_a_size(gib):
    hardware = load_hardware(f"elmoe3d-{gib:g}gb")
    assert hardware.hb.capacity_bytes == gib * 2**30
    assert hardware.pe_count == 4 * gib and type(hardware.pe_count) is int


def test_the_ends_are_the_published_files():
    assert load_hardware("elmoe3d-4gb") == SMALL
    assert load_hardware("elmoe3d-8gb") == LARGE


@pytest.mark.parametrize("key", FIGURES)
def test_every_figure_goes_evenly_from_one_published_size_to_the_other(key):
    sizes = [4.0, *QUARTERS, 8.0]
    first, last = getattr(SMALL, key), getattr(LARGE, key)
    found = [getattr(load_hardware(f"elmoe3d-{gib:g}gb"), key) for gib in sizes]
    assert found == pytest.approx([first + (last - first) * (gib - 4) / 4 for gib in sizes])
    assert found == sorted(found)  # the published figures stay or grow


def test_what_is_no_figure_is_what_both_files_say():
    between = load_hardware("elmoe3d-5.25gb")
    for key in WORDS:
        assert getattr(between, key) == getattr(SMALL, key) == getattr(LARGE, key)


def test_a_device_of_a_size_between_is_no_slower_than_the_small_and_no_faster_than_the_large():
    plan = StepPlan.of((1, 1024))
    times = [
        load_device("elmoe3d", f"elmoe3d-{gib}gb", "qwen3-30b-a3b").probe(plan).latency_s[0] for gib in (4, 6.5, 8)
    ]
    assert times[0] > times[1] > times[2]


@pytest.mark.parametrize("name", ["elmoe3d-3gb", "elmoe3d-9gb", "elmoe3d-0gb", "elmoe3d-5.3gb", "elmoe3d-8.25gb"])
def test_another_size_is_refused_with_those_that_there_are(name):
    with pytest.raises(UnknownName) as caught:
        load_hardware(name)
    assert str(caught.value).startswith(
        f"There is no hardware {name!r}; those that exist are 2xh100, 4xh100, a100-8gb, "
    )
    assert str(caught.value).endswith(
        ", and ELMoE-3D's sizes from 4 to 8 GB in steps of 0.25 GB (a bank); "
        "or a file of yours, by its path: ./NAME.toml."
    )


@pytest.mark.parametrize("name", ["elmoe3d-sixgb", "elmoe3d--5gb", "elmoe3d-5e0gb", "dgx", "../hardware/elmoe3d-6gb"])
def test_what_is_no_size_is_refused_with_the_files_that_exist(name):
    with pytest.raises(
        UnknownName, match=r"There is no hardware .*; those that exist are .*elmoe3d-4gb, elmoe3d-8gb"
    ) as caught:
        load_hardware(name)
    assert str(caught.value).endswith("stratum-xl; or a file of yours, by its path: ./NAME.toml.")


def test_a_file_of_your_own_is_hardware_and_is_read_anew_when_it_changes(tmp_path):
    path = tmp_path / "mine.toml"
    text = (FOLDER / "h100.toml").read_text()
    path.write_text(text)
    assert load_hardware(str(path)) == load_hardware("h100")
    assert load_device("auto", str(path), "olmoe-1b-7b").setup.hardware.hbm_gb_per_s == 3350
    path.write_text(text.replace("hbm_gb_per_s = 3350", "hbm_gb_per_s = 1000"))
    assert load_hardware(str(path)).hbm_gb_per_s == 1000
    with pytest.raises(UnknownName, match=r"There is no file '.*none.toml' of hardware; allowed is the path of a file"):
        load_hardware(str(tmp_path / "none.toml"))
    with pytest.raises(UnknownName, match=r"There is no file './x+\.toml' of hardware; allowed is the path of a file"):
        load_hardware(f"./{'x' * 300}.toml")  # no file system has such names


@pytest.mark.parametrize(
    ("figures", "key"),
    [
        ({"bandwidth_share": 0.7}, "compute_share"),
        ({"compute_share": 0.7}, "bandwidth_share"),
        ({"layer_us": 4.0}, "layer_us"),
        ({"eager_layer_us": 900.0}, "eager_layer_us"),
        ({"pass_us": 500.0}, "pass_us"),
        ({"eager_pass_us": 7000.0}, "eager_pass_us"),
    ],
)
def test_a_gpu_is_measured_in_all_figures_or_in_none(figures, key):
    with pytest.raises(Contradiction) as refused:
        replace(load_hardware("l40s"), **figures)
    assert refused.value.key == key


@pytest.mark.parametrize(
    ("base", "key", "figure", "allowed"),
    [
        ("elmoe3d-8gb", "int4_tops", 523, "at least int8_tops, 524.0"),
        ("l40s", "idle_power_share", 0.95, "at most decode_power_share, 0.9"),
        ("stratum-l", "segment_access_ratio", 0.9, "at least 1: the slowest tier takes no less than the fastest"),
    ],
)
def test_figures_that_no_hardware_has_beside_each_other_are_refused_by_line(base, key, figure, allowed, tmp_path):
    text, path = path_of(base, FOLDER).read_text(), tmp_path / "mine.toml"
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith(f"{key} = "))
    path.write_text("\n".join([*lines[:at], f"{key} = {figure}", *lines[at + 1 :]]))
    with pytest.raises(SpecError) as refused:
        load_hardware(str(path))
    assert str(refused.value).endswith(f"mine.toml, line {at + 1}: {key} is {figure}; allowed is {allowed}.")
