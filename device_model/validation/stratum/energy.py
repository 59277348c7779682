"""Energy of a token on GPUs over that on Stratum (6.3.2): powers of xPU and GPUs are estimates."""

from device_model.validation.stratum.setting import BATCH, LENGTHS, Setting, decode_step


def best_over_gpu(setting: Setting, model: str) -> float:
    """Return the largest over lengths, as the paper prints it."""
    return max(_over_gpu(setting, model, length) for length in LENGTHS)


def arithmetic(setting: Setting, model: str) -> str:
    """Return watts and milliseconds of a step of either at that length, in words."""
    length = max(LENGTHS, key=lambda each: _over_gpu(setting, model, each))
    near, gpu = (decode_step(device(model), BATCH, length) for device in (setting.near, setting.gpu))
    hardware, working_w = setting.near(model).setup.hardware, setting.near(model).working_w
    logic_w = hardware.chips * hardware.logic_w
    return (
        f"at {length} tokens GPUs draw {gpu.power_w:.0f} W for {gpu.latency_s * 1e3:.1f} ms a step, Stratum "
        f"{near.power_w:.0f} W for {near.latency_s * 1e3:.2f} ms: rows {near.energy.hb_j / near.latency_s:.0f}, MACs "
        f"{near.energy.compute_j / near.latency_s:.0f}, other logic {logic_w:.0f}, xPU {working_w - logic_w:.0f}"
    )


def _over_gpu(setting: Setting, model: str, length: int) -> float:
    gpu, near = (decode_step(device(model), BATCH, length) for device in (setting.gpu, setting.near))
    return gpu.energy_j / near.energy_j
