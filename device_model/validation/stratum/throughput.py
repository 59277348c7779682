"""Ratios of decoding throughput: over GPUs, of tiers, of hot hits, over batches, and over layers (Stratum, 6.3)."""

from statistics import mean

from device_model.specs.hardware_file import load_hardware
from device_model.specs.kinds import mono3d
from device_model.validation.stratum.bank_area import bank_mm2
from device_model.validation.stratum.setting import (
    BATCH,
    HIT_BATCH,
    HIT_LENGTHS,
    LENGTHS,
    SCALED_BATCHES,
    SCALED_LENGTHS,
    SEGMENT_LENGTH,
    STRATUM,
    Setting,
    decode_s,
)


def over_gpu(setting: Setting, model: str, batch: int, length: int) -> float:
    """Return throughput of Stratum over its baseline's at one batch and length."""
    return decode_s(setting.gpu(model), batch, length) / decode_s(setting.near(model), batch, length)


def mean_over_gpu(setting: Setting, model: str) -> float:
    """Return throughput over the baseline's, the mean over lengths (Fig. 16)."""
    return mean(over_gpu(setting, model, BATCH, length) for length in LENGTHS)


def mean_over_flat(setting: Setting, model: str) -> float:
    """Return throughput of tiers over none, the mean over lengths (Fig. 16)."""
    return mean(over_flat(setting, model, "", length) for length in LENGTHS)


def segments_over_flat(setting: Setting, model: str) -> float:
    """Return throughput of two segments of 512 layers over that without tiers (6.3.6), at one length."""
    return over_flat(setting, model, "512", SEGMENT_LENGTH)


def over_flat(setting: Setting, model: str, layers: str, length: int) -> float:
    """Return throughput of tiers over none, with so many layers ("" for all), at one length."""
    flat = f"{layers}-flat" if layers else "flat"
    tiered, single = setting.near(model, layers), setting.near(model, flat)
    return decode_s(single, BATCH, length) / decode_s(tiered, BATCH, length)


def hot_hits(setting: Setting, model: str, length: int) -> float:
    """Return throughput of all choices hot over none (Fig. 17b): the paper's "uniform" usage gives less than half of
    what it prints, in any layout, so that it reads best as no hits.
    """
    cold, hot = (setting.near(model, hit_rate=rate) for rate in (0.0, 1.0))
    return decode_s(cold, HIT_BATCH, length) / decode_s(hot, HIT_BATCH, length)


def shortest_hot_hits(setting: Setting, model: str) -> float:
    """Return `hot_hits` at the shortest length."""
    return hot_hits(setting, model, HIT_LENGTHS[0])


def longest_hot_hits(setting: Setting, model: str) -> float:
    """Return `hot_hits` at the longest length."""
    return hot_hits(setting, model, HIT_LENGTHS[1])


def scaled(setting: Setting, model: str) -> dict[tuple[int, int], float]:
    """Return throughput over the GPU's by batch and length (Fig. 18a)."""
    cases = [(batch, length) for batch in SCALED_BATCHES for length in SCALED_LENGTHS]
    return {case: over_gpu(setting, model, *case) for case in cases}


def least_over_gpu(setting: Setting, model: str) -> float:
    """Return the least throughput over the GPU's, of all batches and lengths."""
    return min(scaled(setting, model).values())


def most_over_gpu(setting: Setting, model: str) -> float:
    """Return the greatest throughput over the GPU's, of all batches and lengths."""
    return max(scaled(setting, model).values())


def over_fewer_layers(setting: Setting, model: str, layers: int) -> float:
    """Return throughput per area of all layers over that of fewer, the mean over lengths (Fig. 18b): as many bytes, and
    as much logic.
    """
    hardware = load_hardware(STRATUM[model])
    assert isinstance(hardware, mono3d.Hardware)
    area = bank_mm2(layers, hardware.layers) / bank_mm2(hardware.layers, hardware.layers)
    all_layers, fewer = setting.near(model), setting.near(model, str(layers))
    return area * mean(decode_s(fewer, BATCH, n) / decode_s(all_layers, BATCH, n) for n in LENGTHS)


def over_256_layers(setting: Setting, model: str) -> float:
    """Return throughput per area of all layers over that of 256."""
    return over_fewer_layers(setting, model, 256)


def over_64_layers(setting: Setting, model: str) -> float:
    """Return throughput per area of all layers over that of 64."""
    return over_fewer_layers(setting, model, 64)
