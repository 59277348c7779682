"""Is a row's product the same among however many rows, by vLLM's kernel for BF16?"""

import pytest
import torch

from serving.token_source.cpu_type import cpu_dtype
from serving.token_source.vllm_args import on_cpu

pytestmark = [
    pytest.mark.skipif(not on_cpu(), reason="the kernels are of vLLM's CPU build"),
    pytest.mark.skipif(cpu_dtype() != "bfloat16", reason="without tiles vLLM has no such kernel"),
]


@pytest.mark.parametrize(("outputs", "inputs"), [(64, 192), (320, 192), (96, 64)])
def test_a_row_has_the_same_product_among_however_many(outputs, inputs):
    from vllm import _custom_ops as ops
    from vllm.platforms import current_platform

    from serving.token_source.worker.few_rows import ENOUGH, take_enough_rows

    current_platform.import_kernels()
    take_enough_rows()
    take_enough_rows()  # of another engine in the same process
    torch.manual_seed(0)
    rows = torch.randn(960, inputs).bfloat16()
    packed = torch.ops._C.convert_weight_packed((0.07 * torch.randn(outputs, inputs)).bfloat16())
    together = ops.weight_packed_linear_cpu(rows, packed, outputs, None)
    assert together.shape == (960, outputs)
    for count in (*range(1, ENOUGH + 2), 16, 64):
        parts = [ops.weight_packed_linear_cpu(part, packed, outputs, None) for part in rows.split(count)]
        assert torch.equal(torch.cat(parts), together), count
