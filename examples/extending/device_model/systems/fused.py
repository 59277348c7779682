"""GPUs under an engine that runs each layer as one kernel: what is left of the time that kernels take?"""

from dataclasses import replace

from device_model.one_tier.gpu import GpuDevice, GpuSetup


class Device(GpuDevice):
    """The same GPUs in all else."""

    def __init__(self, setup: GpuSetup) -> None:
        one = replace(setup.calibration, attention_kernels=1, dense_kernels=1, expert_kernels=1, shared_kernels=1)
        super().__init__(replace(setup, calibration=one))
