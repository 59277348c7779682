"""Do the C kernels for norms give what vLLM's own strings of operations do?"""

import pytest
import torch

from serving.token_source.vllm_args import on_cpu

pytestmark = pytest.mark.skipif(not on_cpu(), reason="vLLM's GPU build has kernels of its own")
EPSILON = 1e-6


@pytest.fixture(scope="module")
def kernels():
    from serving.token_source.worker import cpu_kernels

    cpu_kernels.register()
    cpu_kernels.register()  # a second time is none
    return cpu_kernels


@pytest.mark.parametrize("shape", [(1, 192), (17, 192), (5, 3, 64)])
def test_a_norm_is_that_of_vllm(kernels, shape):
    from vllm import ir

    x, weight = torch.randn(shape), torch.rand(shape[-1]) + 0.5
    mine = ir.ops.rms_norm.impls["foreserve_cpu"].impl_fn(x, weight, EPSILON)
    theirs = ir.ops.rms_norm.impls["native"].impl_fn(x, weight, EPSILON)
    torch.testing.assert_close(mine, theirs)


def test_rows_that_do_not_lie_side_by_side_are_no_trouble(kernels):
    from vllm import ir

    wide, weight = torch.randn(5, 400), torch.rand(192)
    heads = wide[:, 8:200]
    mine = ir.ops.rms_norm.impls["foreserve_cpu"].impl_fn(heads, weight, EPSILON)
    torch.testing.assert_close(mine, ir.ops.rms_norm.impls["native"].impl_fn(heads, weight, EPSILON))


def test_a_norm_after_an_addition_is_that_of_vllm(kernels):
    from vllm import ir

    x, residual, weight = torch.randn(7, 192), torch.randn(7, 192), torch.rand(192)
    theirs = ir.ops.fused_add_rms_norm.impls["native"].impl_fn(x.clone(), residual.clone(), weight, EPSILON)
    mine = ir.ops.fused_add_rms_norm.impls["foreserve_cpu"].impl_fn(x, residual, weight, EPSILON)
    torch.testing.assert_close(mine, theirs)


def test_what_the_kernels_cannot_do_is_left_to_vllm(kernels):
    x, weight = torch.randn(2, 64), torch.rand(64)
    assert kernels.plain(x, weight, None)
    assert not kernels.plain(x, None, None)
    assert not kernels.plain(x, weight, 32)
    assert not kernels.plain(x, weight.double(), None)
