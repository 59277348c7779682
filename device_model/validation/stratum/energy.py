"""Energy of a token on GPUs over that on Stratum (6.3.2): powers of xPU and GPUs are estimates."""

from device_model.validation.stratum.setting import BATCH, LENGTHS, Setting, decode_step


def best_over_gpu(setting: Setting, model: str) -> float:
    """The largest over lengths, as the paper prints it."""
    return max(
        decode_step(setting.gpu(model), BATCH, n).energy_j / decode_step(setting.near(model), BATCH, n).energy_j
        for n in LENGTHS
    )
