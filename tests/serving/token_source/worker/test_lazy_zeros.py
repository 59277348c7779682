"""Zeros that take no memory until they are used, and only where vLLM's KV cache asks for them."""

import psutil
import torch

from serving.token_source.worker.lazy_zeros import lazy_zeros

MIB = 2**20


def resident() -> int:
    return int(psutil.Process().memory_info().rss)


def test_bytes_take_memory_where_they_are_used() -> None:
    before = resident()
    with lazy_zeros():
        cache = torch.zeros(256 * MIB, dtype=torch.int8, device=torch.device("cpu"))
    assert resident() < before + 16 * MIB
    rows = cache.view(torch.float32).view(1024, -1)
    rows[7] = 2.0
    assert rows.sum() == 2.0 * rows.shape[1]


def test_all_else_is_as_it_was() -> None:
    usual = torch.zeros
    with lazy_zeros():
        before = resident()
        floats = torch.zeros(16 * MIB, dtype=torch.float32)
        assert resident() > before + 48 * MIB and floats.dtype == torch.float32
        assert torch.zeros(2, 3, dtype=torch.int8, device=torch.device("cpu")).shape == (2, 3)
        assert torch.zeros((4,), dtype=torch.int8).shape == (4,)
    assert torch.zeros is usual
