"""xPU-LogicPIM: a digital unit beside the banks of the LPDDR5 (ELMoE-3D, 7, Accelerator Baselines)."""

from device_model.hb_xpu.near_memory import NearMemoryDevice


class Device(NearMemoryDevice):
    """Its figures are in specs/near_memory/logicpim.toml."""

    near_memory = "logicpim"
