"""Are the specs complete, and is a bad one refused by file, line and key?"""

import tomllib

import pytest

from device_model.spec import EnergyEstimate, Hardware, Locality, Model, SpecError
from device_model.spec_file import SPECS, read_named, read_spec

HARDWARE = (SPECS / "hardware" / "elmoe3d-4gb.toml").read_text()
MODEL = (SPECS / "models" / "qwen3-30b-a3b.toml").read_text()
FILES = sorted(SPECS.rglob("*.toml"))


def line_of(text, start):
    return next(i for i, line in enumerate(text.splitlines(), 1) if line.startswith(start))


def refusal(tmp_path, form, text):
    path = tmp_path / "hardware" / "mine.toml"
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(SpecError) as caught:
        read_spec(form, path)
    return str(caught.value)


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_every_figure_has_a_source_and_every_source_a_figure(path):
    values = tomllib.loads(path.read_text())
    sources = values.pop("sources")
    assert set(sources) == {key for key, value in values.items() if not isinstance(value, str)}
    assert all(len(source) > 10 for source in sources.values())


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_every_file_loads(path):
    form = {"hardware": Hardware, "models": Model}.get(path.parent.name)
    if form is None:
        form = Locality if "hit_exponent" in path.read_text() else EnergyEstimate
    assert isinstance(read_spec(form, path), form)


@pytest.mark.parametrize(
    ("old", "new", "where", "said"),
    [
        (
            "hb_gb_per_s = 819.2",
            "hb_gb_per_s = -819.2",
            "hb_gb_per_s",
            "hb_gb_per_s is -819.2; allowed is a number above",
        ),
        ("hb_gb_per_s = 819.2", "hb_gb_per_s = 0", "hb_gb_per_s", "hb_gb_per_s is 0; allowed is a number above 0."),
        ("hb_gb_per_s = 819.2", "hb_gb_per_s = inf", "hb_gb_per_s", "hb_gb_per_s is inf; allowed is a number above 0."),
        ("hb_gb_per_s = 819.2", "hb_gb_per_s = nan", "hb_gb_per_s", "hb_gb_per_s is nan; allowed is a number above 0."),
        ("hb_gb_per_s = 819.2", 'hb_gb_per_s = "fast"', "hb_gb_per_s", "is 'fast'; allowed is a number above 0."),
        ("pe_count = 16", "pe_count = 16.5", "pe_count", "pe_count is 16.5; allowed is a whole number of at least 1."),
        ("pe_count = 16", "pe_count = true", "pe_count", "pe_count is True; allowed is a whole number of at least 1."),
        (
            "hb_loss_percent = 3",
            "hb_loss_percent = 100",
            "hb_loss_percent",
            "allowed is a percentage from 0 to below 100.",
        ),
        (
            "pe_count = 16",
            "pe_count = 16\nhb_gbps = 819.2",
            "hb_gbps",
            "unknown key hb_gbps; allowed are energy_estimate,",
        ),
        (
            'pe_count = "',
            'pe_coun = "',
            "pe_count",
            "pe_count has no source; allowed is a figure with an entry of text in",
        ),
        ('pe_count = "', 'pe_count = " "\n# "', "pe_count", "pe_count has no source"),
        ("[sources]", '[sources]\nhbm = "a book"', "hbm", "a source for hbm, which is no figure of this file; allowed"),
    ],
)
def test_a_bad_figure_is_refused_with_file_line_and_key(tmp_path, old, new, where, said):
    text = HARDWARE.replace(old, new, 1)
    assert text != HARDWARE
    message = refusal(tmp_path, Hardware, text)
    assert message.startswith(f"hardware/mine.toml, line {line_of(text, where)}: ")
    assert said in message
    assert message.endswith(".")


def test_a_missing_key_is_named_with_all_that_are_required(tmp_path):
    message = refusal(tmp_path, Hardware, HARDWARE.replace("pe_count = 16\n", "", 1))
    assert message.startswith(
        "hardware/mine.toml: the key pe_count is missing; required are energy_estimate, pe_count,"
    )


def test_a_file_without_sources_is_refused(tmp_path):
    message = refusal(tmp_path, Hardware, HARDWARE.split("[sources]")[0])
    assert "pe_count has no source" in message


def test_text_that_is_not_toml_is_refused_with_its_line(tmp_path):
    message = refusal(tmp_path, Hardware, "pe_count = 16\nhb = = 3\n")
    assert message.startswith("hardware/mine.toml: not valid TOML: ") and "line 2" in message


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("top_k = 8", "top_k = 129", "top_k is 129; allowed is at most experts, 128."),
        ("kv_heads = 4", "kv_heads = 5", "kv_heads is 5; allowed is a divisor of q_heads, 32."),
    ],
)
def test_figures_that_contradict_each_other_are_refused(tmp_path, old, new, said):
    text = MODEL.replace(old, new, 1)
    message = refusal(tmp_path, Model, text)
    assert message == f"hardware/mine.toml, line {line_of(text, new)}: {said}"


def test_an_unknown_name_is_answered_with_those_that_exist():
    with pytest.raises(SpecError, match=r"no hardware 'elmoe4d'; those that exist are elmoe3d-4gb, elmoe3d-8gb\.$"):
        read_named(Hardware, "hardware", "elmoe4d", SPECS / "hardware")


def test_a_name_cannot_leave_its_folder():
    with pytest.raises(SpecError, match=r"There is no model '\.\./hardware/elmoe3d-4gb'"):
        read_named(Model, "model", "../hardware/elmoe3d-4gb", SPECS / "models")


def test_units_are_converted_to_si():
    hardware = read_named(Hardware, "hardware", "elmoe3d-8gb", SPECS / "hardware")
    assert hardware.hb.capacity_bytes == 8 * 2**30
    assert hardware.hb.bytes_per_s == pytest.approx(1638.4e9 * 0.97)
    assert hardware.hb.j_per_byte == pytest.approx(0.43e-12 * 8)
    assert hardware.ext.bytes_per_s == pytest.approx(102.4e9 * 0.99)
    assert hardware.macs_per_s == pytest.approx(262e12)
    estimate = read_named(EnergyEstimate, "calibration", "xpu-7nm", SPECS / "calibration")
    assert estimate.static_w(hardware) == pytest.approx(32 * 0.08 + 72 * 0.015)
    assert estimate.j_per_mac == pytest.approx(1e-13)
    assert estimate.link_j_per_byte == pytest.approx(3.2e-12)
