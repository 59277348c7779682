"""RMS norms by vLLM's own C kernels on the CPU.

vLLM 0.32.0 ships them in its CPU build and uses them on GPUs only; on CPUs it strings seven operations together, for
every norm of every layer. In a small model, where each operation costs its call, that is a fifth of a step.
"""

import torch
from vllm import ir
from vllm.platforms import current_platform

from serving.token_source.vllm_args import CPU_KERNELS


def plain(x: torch.Tensor, weight: torch.Tensor | None, variance_size: int | None) -> bool:
    """Tell whether the kernels can do this: they need a weight of the rows' type, and the variance of whole rows."""
    return variance_size is None and weight is not None and weight.dtype == x.dtype


def register() -> None:
    """Offer the kernels to vLLM, under the name `CPU_KERNELS`; where they do not fit, it takes its own."""
    current_platform.import_kernels()
    if CPU_KERNELS not in ir.ops.rms_norm.impls:
        ir.ops.rms_norm.register_impl(CPU_KERNELS, supports_args=_norm_fits)(_rms_norm)
        ir.ops.fused_add_rms_norm.register_impl(CPU_KERNELS, supports_args=_add_fits, inplace=True)(_fused_add_rms_norm)


def _norm_fits(x: torch.Tensor, weight: torch.Tensor | None, epsilon: float, variance_size: int | None = None) -> bool:
    return plain(x, weight, variance_size)


def _add_fits(
    x: torch.Tensor,
    x_residual: torch.Tensor,
    weight: torch.Tensor | None,
    epsilon: float,
    variance_size: int | None = None,
) -> bool:
    return plain(x, weight, variance_size) and x.is_contiguous() and x_residual.is_contiguous()


def _rms_norm(
    x: torch.Tensor, weight: torch.Tensor | None, epsilon: float, variance_size: int | None = None
) -> torch.Tensor:
    output = torch.empty(x.shape, dtype=x.dtype)
    torch.ops._C.rms_norm(output, x.contiguous(), weight, epsilon)
    return output


def _fused_add_rms_norm(
    x: torch.Tensor,
    x_residual: torch.Tensor,
    weight: torch.Tensor | None,
    epsilon: float,
    variance_size: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    torch.ops._C.fused_add_rms_norm(x, x_residual, weight, epsilon)
    return x, x_residual
