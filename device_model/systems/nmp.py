"""xPU-NMP: near-memory processors on two of the LPDDR5 channels, as in H2-LLM (ELMoE-3D, 7, Accelerator Baselines)."""

from device_model.hb_xpu.near_memory import NearMemoryDevice


class Device(NearMemoryDevice):
    """Its figures are in specs/near_memory/nmp.toml."""

    near_memory = "nmp"
