"""Are the specs complete, and is a bad one refused by file, line and key?"""

import re
import tomllib

import pytest

from device_model.specs.calibrated import GpuCalibration, Locality, Mono3dCalibration, Speculation
from device_model.specs.hardware_file import load_hardware
from device_model.specs.kinds.hb_xpu import Hardware
from device_model.specs.kinds.npu import Hardware as Npu
from device_model.specs.spec import EnergyEstimate, Model, NearMemory, SpecError, UnknownName
from device_model.specs.spec_file import SPECS, read_named, read_spec

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
    if path.parent.name == "hardware":
        assert load_hardware(path.stem).kind == tomllib.loads(path.read_text())["kind"]
        return
    form = {"models": Model, "near_memory": NearMemory}.get(path.parent.name)
    if form is None:
        marks = {
            "hit_exponent": Locality,
            "draft_depth": Speculation,
            "mac_pj": EnergyEstimate,
            "kept_share": Mono3dCalibration,
            "kernel_us": GpuCalibration,
        }
        form = next(form for mark, form in marks.items() if mark in path.read_text())
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
        (
            "hb_gb_per_s = 819.2",
            "hb_gb_per_s = 0",
            "hb_gb_per_s",
            "hb_gb_per_s is 0; allowed is a number above 0 and at most 1e+12.",
        ),
        (
            "hb_gb_per_s = 819.2",
            "hb_gb_per_s = inf",
            "hb_gb_per_s",
            "hb_gb_per_s is inf; allowed is a number above 0 and at most 1e+12.",
        ),
        (
            "hb_gb_per_s = 819.2",
            "hb_gb_per_s = 1e-300",
            "hb_gb_per_s",
            "hb_gb_per_s is 1e-300; allowed is a number above",
        ),
        (
            "hb_gb_per_s = 819.2",
            "hb_gb_per_s = 1e29",
            "hb_gb_per_s",
            "hb_gb_per_s is 1e+29; allowed is a number above 0",
        ),
        (
            "hb_gb_per_s = 819.2",
            "hb_gb_per_s = nan",
            "hb_gb_per_s",
            "hb_gb_per_s is nan; allowed is a number above 0 and at most 1e+12.",
        ),
        (
            "hb_gb_per_s = 819.2",
            'hb_gb_per_s = "fast"',
            "hb_gb_per_s",
            "is 'fast'; allowed is a number above 0 and at most 1e+12.",
        ),
        ("pe_count = 16", "pe_count = 16.5", "pe_count", "pe_count is 16.5; allowed is a whole number of at least 1."),
        (
            "pe_count = 16",
            f"pe_count = {10**23}",
            "pe_count",
            "a whole number of at least 1, and of at most 1,000,000,000.",
        ),
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
            "unknown key hb_gbps (did you mean hb_gb_per_s?); allowed are energy_estimate,",
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
        "hardware/mine.toml: the key pe_count is missing; required are energy_estimate, speculation,"
    )


def test_a_file_without_sources_is_refused(tmp_path):
    message = refusal(tmp_path, Hardware, HARDWARE.split("[sources]")[0])
    assert "pe_count has no source" in message


@pytest.mark.parametrize(
    ("form", "file", "key"),
    [
        (Npu, "hardware/npu-64t", "compute_share"),
        (NearMemory, "near_memory/nmp", "ext_share"),
        (GpuCalibration, "calibration/vllm-0.8.1", "bandwidth_share"),
        (GpuCalibration, "calibration/vllm-0.8.1", "memory_share"),
        (Mono3dCalibration, "calibration/stratum", "compute_share"),
    ],
)
def test_a_rate_has_some_share_of_its_peak(tmp_path, form, file, key):
    path = tmp_path / "mine.toml"
    text = (SPECS / f"{file}.toml").read_text(encoding="utf-8")
    path.write_text(re.sub(rf"^{key} = .*", f"{key} = 0", text, flags=re.MULTILINE, count=1), encoding="utf-8")
    with pytest.raises(SpecError, match=f"{key} is 0; allowed is a number above 0 and at most 1"):
        read_spec(form, path)


def test_text_that_is_not_toml_is_refused_with_its_line(tmp_path):
    message = refusal(tmp_path, Hardware, "pe_count = 16\nhb = = 3\n")
    assert message.startswith("hardware/mine.toml: not valid TOML: ") and "line 2" in message


@pytest.mark.parametrize("absurd", ["1" * 5000, "[" * 100_000], ids=["digits", "brackets"])
def test_so_is_what_no_reader_of_toml_can_hold(tmp_path, absurd):
    assert refusal(tmp_path, Hardware, f"pe_count = {absurd}\n").startswith("hardware/mine.toml: not valid TOML: ")


CONTRADICTIONS = [
    ("qwen3-30b-a3b", "top_k = 8", "top_k = 129", "top_k is 129; allowed is at most experts, 128."),
    (
        "mixtral-8x7b",
        "top_k = 2",
        "top_k = 3",
        "hot_hit_rate is 0.316; allowed is at least top_k / experts, 0.375, for hot ones are used most; or no such key",
    ),
    ("qwen3-30b-a3b", "top_k = 8", "top_k = 0", "top_k is 0; allowed is a number above 0 in a model with experts."),
    ("qwen3-30b-a3b", "kv_heads = 4", "kv_heads = 5", "kv_heads is 5; allowed is a divisor of q_heads, 32."),
    ("qwen3-30b-a3b", "kv_heads = 4", "kv_heads = -4", "kv_heads is -4; allowed is a whole number of at least 0."),
    ("glm-4.7-flash", '"mla"', '"mha"', "attention is 'mha'; allowed is gqa or mla."),
    (
        "glm-4.7-flash",
        '"mla"',
        '"gqa"',
        "the key kv_heads is missing; required is a number above 0 with gqa attention.",
    ),
    (
        "glm-4.7-flash",
        "kv_lora_rank = 512",
        "kv_lora_rank = 0",
        "kv_lora_rank is 0; allowed is a number above 0 with mla",
    ),
    (
        "glm-4.7-flash",
        "dense_layers = 1",
        "dense_layers = 47",
        "dense_layers is 47; allowed is less than layers, 47, in a",
    ),
    (
        "glm-4.7-flash",
        "dense_layers = 1",
        "dense_layers = 0",
        "dense_intermediate_size is 10240; allowed is 0, or no such",
    ),
    ("glm-4.7-flash", "shared_experts = 1", "shared_experts = -1", "shared_experts is -1; allowed is a whole number"),
    (
        "gpt-oss-20b",
        "window_layers = 12",
        "window_layers = 25",
        "sliding_window_layers is 25; allowed is at most layers, 24.",
    ),
    (
        "gpt-oss-20b",
        "window_layers = 12",
        "window_layers = 0",
        "sliding_window_layers is 0; allowed is a number above 0 in",
    ),
    (
        "gpt-oss-20b",
        "kv_bits = 8",
        "kv_bits = 1e9",
        "kv_bits is 1000000000.0; allowed is a number of bits from 1 to 64.",
    ),
    (
        "qwen2.5-1.5b",
        "dense_layers = 28",
        "dense_layers = 27",
        "dense_layers is 27; allowed is all layers, 28, in a model",
    ),
]
ADDITIONS = [
    ("qwen3-30b-a3b", "kv_lora_rank", "kv_lora_rank is 5; allowed is 0, or no such key, with gqa attention."),
    ("qwen3-30b-a3b", "q_lora_rank", "q_lora_rank is 5; allowed is 0, or no such key, with gqa attention."),
    ("qwen3-30b-a3b", "dense_layers", "the key dense_intermediate_size is missing; required is a number above 0 with"),
    ("qwen3-30b-a3b", "sliding_window", "the key sliding_window_layers is missing; required is a number above 0 in"),
    ("qwen3-30b-a3b", "shared_expert_intermediate_size", "allowed is 0, or no such key, without shared_experts."),
    ("glm-4.7-flash", "head_dim", "head_dim is 5; allowed is 0, or no such key, with mla attention."),
    ("glm-4.7-flash", "sliding_window", "sliding_window is 5; allowed is 0, or no such key, with mla attention."),
    ("qwen2.5-1.5b", "top_k", "top_k is 5; allowed is 0, or no such key, in a model without experts."),
    ("qwen2.5-1.5b", "experts", "the key top_k is missing; required is a number above 0 in a model with experts."),
    ("qwen2.5-1.5b", "rotary_dim", "unknown key rotary_dim; allowed are calibration, layers,"),
]


@pytest.mark.parametrize(("model", "old", "new", "said"), CONTRADICTIONS)
def test_figures_that_contradict_each_other_are_refused(tmp_path, model, old, new, said):
    text = (SPECS / "models" / f"{model}.toml").read_text().replace(old, new, 1)
    message = refusal(tmp_path, Model, text)
    line = "" if "is missing" in said else f", line {line_of(text, said.split(' is ')[0])}"
    assert message.startswith(f"hardware/mine.toml{line}: {said}")
    assert message.endswith(".")


@pytest.mark.parametrize(("model", "key", "said"), ADDITIONS)
def test_a_key_that_the_others_leave_no_room_for_is_refused(tmp_path, model, key, said):
    text = (SPECS / "models" / f"{model}.toml").read_text().replace("layers =", f"{key} = 5\nlayers =", 1)
    message = refusal(tmp_path, Model, text.replace("[sources]", f'[sources]\n{key} = "a guess"'))
    line = "" if "is missing" in said else f", line {line_of(text, key)}"
    assert message.startswith(f"hardware/mine.toml{line}: ") and said in message
    assert message.endswith(".")


def test_a_key_with_a_default_may_be_left_out_but_if_given_needs_a_source(tmp_path):
    text = MODEL.replace("shared_experts = 0\n", "", 1)
    assert "shared_experts has" not in refusal(tmp_path, Model, text)
    path = tmp_path / "qwen3.toml"
    path.write_text("\n".join(line for line in MODEL.splitlines() if not line.startswith("shared_experts")))
    assert read_spec(Model, path) == read_named(Model, "model", "qwen3-30b-a3b", SPECS / "models")


def test_an_unknown_name_is_answered_with_those_that_exist():
    with pytest.raises(
        UnknownName,
        match=r"no hardware 'elmoe4d' .did you mean elmoe3d-8gb.*; those that exist are .*elmoe3d-4gb, .*\.$",
    ):
        read_named(Hardware, "hardware", "elmoe4d", SPECS / "hardware")
    own = "or one of yours, a file in models/ in the folder that FORESERVE_SPECS names (foreserve model add CONFIG.json"
    with pytest.raises(UnknownName, match=re.escape(own)):
        read_named(Model, "model", "gpt", SPECS / "models")


def test_a_name_cannot_leave_its_folder():
    with pytest.raises(UnknownName, match=r"There is no model '\.\./hardware/elmoe3d-4gb'"):
        read_named(Model, "model", "../hardware/elmoe3d-4gb", SPECS / "models")


def test_units_are_converted_to_si():
    hardware = read_named(Hardware, "hardware", "elmoe3d-8gb", SPECS / "hardware")
    assert hardware.hb.capacity_bytes == 8 * 2**30
    assert hardware.hb.bytes_per_s == pytest.approx(1638.4e9 * 0.97)
    assert hardware.hb.j_per_byte == pytest.approx(0.43e-12 * 8)
    assert hardware.ext.bytes_per_s == pytest.approx(102.4e9 * 0.99)
    assert hardware.macs_per_s == pytest.approx(262e12)
    estimate = read_named(EnergyEstimate, "calibration", "xpu-7nm", SPECS / "calibration")
    assert estimate.static_w(hardware.pe_count, 72) == pytest.approx(32 * 0.026 + 72 * 0.017)
    assert estimate.j_per_mac == pytest.approx(1e-13)
    assert estimate.link_j_per_byte == pytest.approx(3.2e-12)
