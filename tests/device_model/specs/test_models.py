"""Are the bundled models as large as the published ones? Counts worked out by hand, and the totals of their cards."""

import pytest

from device_model.load import load_device
from device_model.size import ModelSize
from device_model.specs.spec import DeviceError, Model
from device_model.specs.spec_file import SPECS, names_in, read_named
from device_model.step import StepPlan
from device_model.work import StepWork

NAMES = names_in(SPECS / "models")
SIZES = {name: ModelSize.of(read_named(Model, "model", name, SPECS / "models")) for name in NAMES}

# Millions of weights: what a token reads in the layers without the norms, and the LM head.
BODY_AND_HEAD = {
    "qwen3-30b-a3b": (918.55, 311.2),
    "glm-4.7-flash": (1525.7, 317.2),
    "deepseek-v2-lite": (892.1, 209.7),
    "gpt-oss-20b": (639.2, 579.1),
}
EXPERTS_GB = {"qwen3-30b-a3b": 30.80, "glm-4.7-flash": 29.52, "deepseek-v2-lite": 15.29, "gpt-oss-20b": 10.15}
# Billions of weights, as the models' cards say.
PUBLISHED = {
    "qwen3-30b-a3b": 30.5,
    "glm-4.7-flash": 30,
    "deepseek-v2-lite": 15.7,
    "gpt-oss-20b": 20.9,
    "qwen2.5-1.5b": 1.54,
}


@pytest.mark.parametrize("name", BODY_AND_HEAD)
def test_static_weights_are_what_counting_by_hand_gives(name):
    body, head = BODY_AND_HEAD[name]
    size = SIZES[name]
    assert size.static_macs_per_token / 1e6 == pytest.approx(body, rel=1e-4)
    assert size.head_macs_per_sequence / 1e6 == pytest.approx(head, rel=1e-3)
    assert size.static_read_bytes_at(8) / 1e6 == pytest.approx(body + head, rel=1e-3)
    assert size.static_bytes / 8.5 * 8 / 1e6 == pytest.approx(body + 2 * head, rel=1e-3)
    assert size.static_read_bytes == size.static_read_bytes_at(8.5) == 2 * size.static_read_bytes_at(4.25)


@pytest.mark.parametrize("name", EXPERTS_GB)
def test_experts_take_the_bytes_that_counting_by_hand_gives(name):
    assert SIZES[name].experts_bytes / 1e9 == pytest.approx(EXPERTS_GB[name], abs=5e-3)


@pytest.mark.parametrize("name", PUBLISHED)
def test_weights_add_up_to_the_published_ones(name):
    weights = SIZES[name].weights
    assert (weights.static_held + weights.expert * weights.experts) / 1e9 == pytest.approx(PUBLISHED[name], rel=3e-3)


def test_gpt_oss_attends_over_a_window_in_every_other_layer():
    """24 layers of 8 KV heads of 64; in 12 of them a sequence of 1,000 tokens has only its last 128."""
    size = SIZES["gpt-oss-20b"]
    value_bytes = 1
    assert size.kv_bytes_per_token == 24 * 2 * 8 * 64 * value_bytes
    work = StepWork.of(StepPlan.of((1, 999), (1, 49)), 1)
    kv = 12 * 2 * 8 * 64 * value_bytes * (1000 + 128 + 50 + 50)
    assert size.kv_held_bytes(work) == size.kv_read_bytes(work) == pytest.approx(kv)
    assert size.kv_traffic_bytes(work) == pytest.approx(kv + 2 * size.kv_bytes_per_token)
    assert size.attention_macs(work) == pytest.approx(12 * 2 * 64 * 64 * (1000 + 128 + 50 + 50))


@pytest.mark.parametrize(("name", "values"), [("glm-4.7-flash", 47 * 576), ("deepseek-v2-lite", 27 * 576)])
def test_mla_keeps_a_latent_and_the_rotary_key_of_a_token(name, values):
    assert SIZES[name].kv_bytes_per_token == values


def test_mla_decodes_absorbed_and_prefills_expanded():
    """DeepSeek-V2-Lite, 27 layers, 16 heads: a pair takes 512 + 64 + 512 MACs on latents, and 192 + 128 expanded."""
    size = SIZES["deepseek-v2-lite"]
    decode = StepWork.of(StepPlan.of((1, 999), (1, 499)), 2)
    assert size.attention_macs(decode) == pytest.approx([27 * 16 * 1088 * 1500, 27 * 16 * 1088 * 1502])
    prefill = StepWork.of(StepPlan.of((1000, 0), (1, 999)), 1)
    pairs = 1000 * 1001 / 2
    assert size.attention_macs(prefill) == pytest.approx(27 * 16 * (320 * pairs + 1088 * 1000))
    chunk = StepWork.of(StepPlan.of((1000, 500)), 1)  # the latents of the 500 go up: 512 x 16 x (128 + 128) each
    pairs += 1000 * 500
    assert size.attention_macs(chunk) == pytest.approx(27 * (16 * 320 * pairs + 500 * 512 * 16 * 256))


def test_experts_are_counted_over_the_layers_that_have_them():
    assert [SIZES[n].experts for n in ("qwen3-30b-a3b", "glm-4.7-flash", "deepseek-v2-lite", "gpt-oss-20b")] == [
        48 * 128,
        46 * 64,
        26 * 64,
        24 * 32,
    ]
    assert (SIZES["glm-4.7-flash"].experts_per_layer, SIZES["glm-4.7-flash"].top_k) == (64, 4)


def test_a_dense_model_has_no_experts_and_one_table():
    size = SIZES["qwen2.5-1.5b"]
    assert (size.experts, size.top_k, size.experts_bytes) == (0, 0, 0.0)
    assert size.static_bytes == size.static_read_bytes
    for system in ("xpu", "elmoe3d"):
        step = next(iter(load_device(system, "elmoe3d-4gb", "qwen2.5-1.5b").probe(StepPlan.of((1, 999)))))
        assert (step.expert_lookups, step.expert_hits) == (0, 0)
        assert sum(step.traffic) == pytest.approx(size.static_read_bytes + 1001 * size.kv_bytes_per_token)


# Their weights in FP16 take more than 64 GB of LPDDR.
TOO_LARGE = ("llama-4-scout", "mixtral-8x7b")
# Of 64 GB they leave less than half of the context.
TIGHT = ("qwen2.5-32b",)


@pytest.mark.parametrize("name", TOO_LARGE)
def test_a_model_that_does_not_fit_is_refused(name):
    with pytest.raises(DeviceError, match=r"The model does not fit: its weights take .* of the external memory"):
        load_device("xpu", "elmoe3d-8gb", name)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in (*TOO_LARGE, *TIGHT)])
@pytest.mark.parametrize("system", ["elmoe3d", "xpu"])
def test_every_bundled_model_runs_on_every_system(system, name):
    device = load_device(system, "elmoe3d-8gb", name)
    slow, fast = device.probe(StepPlan.of(*[(1, 4000)] * 8)), device.probe(StepPlan.of((1, 100)))
    assert slow.latency_s[0] > fast.latency_s[0] > 0
    assert device.kv_capacity_tokens > device.max_context_tokens / 2
