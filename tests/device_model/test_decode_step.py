"""A decode step of Qwen3-30B-A3B on ELMoE-3D with 4 GB, worked out by hand and compared with the code's answer."""

import tomllib

import pytest

from device_model.load import load_device
from device_model.specs.spec_file import CALIBRATION
from device_model.step import StepPlan

WEIGHT_BYTES = 8.5 / 8
HB, EXT = 819.2e9 * 0.97, 102.4e9 * 0.99

ATTENTION = 48 * (2048 * 4096 + 2048 * 512 + 2048 * 512 + 4096 * 2048)
ROUTER = 48 * 2048 * 128
NORMS = 48 * 2 * 2048 + 2048
TABLE = 151936 * 2048
EXPERT = 3 * 2048 * 768
KV_BYTES = 48 * 2 * 4 * 128


def test_two_sequences_on_elmoe3d():
    fitted = tomllib.loads((CALIBRATION / "realisable" / "qwen3-30b-a3b.toml").read_text())
    read = (ATTENTION + ROUTER + NORMS + TABLE) * WEIGHT_BYTES
    held = read + TABLE * WEIGHT_BYTES
    kv = (1001 + 501) * KV_BYTES
    all_experts = 48 * 128 * EXPERT * WEIGHT_BYTES
    cached = (4 * 2**30 - held - kv) / all_experts
    # Of Beta(a, 15 a), whose mean is 8 / 128: an expert is left unread by two with (1 - 1/16) (15 a + 1) / (16 a + 1).
    alpha = 1 / fitted["popularity_spread"]
    touched = 1 - (15 / 16) * (15 * alpha + 1) / (16 * alpha + 1)
    least = tomllib.loads((CALIBRATION / "realisable" / "elmoe3d.toml").read_text())["least_share_of_top_k"] / 16
    hit = cached ** fitted["hit_exponent"] / (1 + (least / cached) ** 12)
    assert touched * hit < cached
    missed = touched * (1 - hit) * all_experts
    seconds = read / HB + (kv + 2 * KV_BYTES) / HB + missed / EXT

    step = next(iter(load_device("elmoe3d", "elmoe3d-4gb", "qwen3-30b-a3b").probe(StepPlan.of((1, 1000), (1, 500)))))
    assert step.latency_s == pytest.approx(seconds, rel=1e-6)
    assert step.latency_s == pytest.approx(17.4e-3, rel=0.01)
    assert step.traffic.ext_bytes == pytest.approx(missed)
    written = min(missed, cached * all_experts)
    assert step.traffic.hb_bytes == pytest.approx(read + kv + 2 * KV_BYTES + touched * hit * all_experts + written)
    assert step.expert_lookups == pytest.approx(48 * 128 * touched)
    assert step.expert_hits == pytest.approx(48 * 128 * touched * hit)
    macs = 2 * (ATTENTION + ROUTER + TABLE + 48 * 8 * EXPERT) + 48 * 2 * 32 * 128 * (1001 + 501)
    assert step.energy.compute_j == pytest.approx(macs * 1e-13)


def test_one_sequence_on_the_xpu_is_bytes_over_bandwidth():
    moved = (ATTENTION + ROUTER + NORMS + TABLE + 48 * 8 * EXPERT) * WEIGHT_BYTES + (1024 + 1) * KV_BYTES
    step = next(iter(load_device("xpu", "elmoe3d-4gb", "qwen3-30b-a3b").probe(StepPlan.of((1, 1023)))))
    assert step.traffic == (0, pytest.approx(moved))
    assert step.latency_s == pytest.approx(moved / EXT)
    assert step.expert_hits == 0


def test_a_long_prefill_is_bound_by_computing():
    """32k tokens at 131 TMAC/s: each with the weights it uses and all tokens up to it, and the logits of the last."""
    tokens = 32768
    macs = tokens * (ATTENTION + ROUTER + 48 * 8 * EXPERT) + 48 * 2 * 4096 * tokens * (tokens + 1) / 2 + TABLE
    step = next(iter(load_device("elmoe3d", "elmoe3d-4gb", "qwen3-30b-a3b").probe(StepPlan.of((tokens, 0)))))
    assert step.latency_s == pytest.approx(macs / 131e12)
