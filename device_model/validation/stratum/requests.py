"""A request by itself, and what swaps cost it: Stratum's Table 4."""

from device_model.validation.stratum.setting import REQUEST, Setting, request_s

MILLI = 1e-3


def request_latency(setting: Setting, model: str) -> float:
    """Return the seconds of a request of 256 and 256 tokens."""
    return request_s(setting.near(model), REQUEST)


def swap_ms(setting: Setting, model: str) -> float:
    """Return the milliseconds of a swap between two topics."""
    return setting.near(model).expected_swap().seconds / MILLI


def swap_mj(setting: Setting, model: str) -> float:
    """Return the millijoules of a swap: of all rows that are read and written."""
    return setting.near(model).expected_swap().joules / MILLI
