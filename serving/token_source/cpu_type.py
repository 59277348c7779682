"""The number type in which a token model runs on this CPU."""

from functools import cache
from pathlib import Path

CPU_INFO = Path("/proc/cpuinfo")
TILES = "amx_bf16"
"""The flag of processors that multiply BF16 numbers in tiles (Intel's AMX)."""


@cache
def cpu_dtype() -> str:
    """Return vLLM's name of it: bfloat16 where the processor has tiles for it, which take two thirds of float32's time.

    Elsewhere float32: where BF16 is emulated that is three times as fast, and what has BF16 without tiles was not
    measured.
    """
    try:
        flags = CPU_INFO.read_text(encoding="utf-8", errors="replace").split()
    except OSError:  # not Linux
        flags = []
    return "bfloat16" if TILES in flags else "float32"
