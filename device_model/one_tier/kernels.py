"""Kernels of a pass: how many a serving engine launches on a GPU, as its calibration counts them by layer."""

from device_model.specs.calibrated import GpuCalibration
from device_model.specs.spec import Model


def kernels(model: Model, counted: GpuCalibration, gpus: int) -> int:
    """Return the kernels of a pass over all layers; several GPUs exchange partial sums by some more."""
    shared = counted.shared_kernels if model.shared_experts else 0
    sums = counted.sum_kernels if gpus > 1 else 0
    experts = (counted.expert_kernels + shared) * model.expert_layers
    return experts + counted.dense_kernels * model.dense_layers + (counted.attention_kernels + sums) * model.layers
