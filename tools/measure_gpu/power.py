"""Power that the GPU draws, by NVIDIA's NVML; unknown where there is none."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any


class Meter:
    """Reads the first GPU's counter of energy."""

    def __init__(self) -> None:
        """Look for it."""
        self._nvml: Any = None
        try:
            import torch
            from vllm.third_party import pynvml

            uuid = str(torch.cuda.get_device_properties(0).uuid)
            pynvml.nvmlInit()
            self._gpu = pynvml.nvmlDeviceGetHandleByUUID(uuid if uuid.startswith("GPU-") else f"GPU-{uuid}")
            pynvml.nvmlDeviceGetTotalEnergyConsumption(self._gpu)
        except Exception:  # no GPU, another maker's, no driver, no counter: each its own kind of error
            return
        self._nvml = pynvml

    @property
    def works(self) -> bool:
        """Say whether there is one."""
        return self._nvml is not None

    @contextmanager
    def watts(self) -> Iterator[list[float]]:
        """Give a list that, after the block, holds the mean power while it ran; nothing where it is unknown."""
        found: list[float] = []
        began_s, began_mj = perf_counter(), self._millijoules()
        yield found
        if self.works:
            found.append((self._millijoules() - began_mj) / 1e3 / (perf_counter() - began_s))

    def _millijoules(self) -> float:
        return float(self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._gpu)) if self.works else 0.0
