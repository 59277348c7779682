"""Does a token model run in the number type that its processor is fast with?"""

import pytest

from serving.scenario.scenario import Scenario
from serving.token_source import cpu_type, vllm_args
from serving.token_source.vllm_args import vllm_flags


@pytest.fixture
def flags_of(monkeypatch, tmp_path):
    def flags(told: str | None) -> list[str]:
        info = tmp_path / "cpuinfo"
        if told is not None:
            info.write_text(f"processor\t: 0\nflags\t\t: fpu {told} sse\n")
        monkeypatch.setattr(cpu_type, "CPU_INFO", info)
        monkeypatch.setattr(vllm_args, "on_cpu", lambda: True)
        cpu_type.cpu_dtype.cache_clear()
        try:
            return vllm_flags(Scenario(vllm_options=("--seed=1",)), 4096)
        finally:
            cpu_type.cpu_dtype.cache_clear()

    return flags


@pytest.mark.parametrize(
    ("told", "dtype"),
    [("avx512f amx_bf16", "bfloat16"), ("avx512f avx512_bf16", "float32"), ("avx2", "float32"), (None, "float32")],
)
def test_it_is_bfloat16_where_the_processor_has_tiles_for_it_and_else_float32(flags_of, told, dtype):
    assert [flag for flag in flags_of(told) if flag.startswith("--dtype")] == [f"--dtype={dtype}"]
