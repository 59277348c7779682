"""Is attention over short segments torch's?"""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from serving.lab.training.attention import BLOCK, LONGEST, attended


@pytest.mark.parametrize("length", [1, 50, BLOCK, 2 * BLOCK + 44, LONGEST + 1])
def test_short_and_long_segments_are_as_torch_has_them(length):
    torch.manual_seed(0)
    q, k, v = (torch.randn(heads, length, 16, requires_grad=True) for heads in (4, 2, 2))
    ours = attended(q, k, v)
    theirs = scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True, enable_gqa=True)[0]
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)
    weights = torch.randn_like(ours)
    pairs = (torch.autograd.grad((out * weights).sum(), (q, k, v)) for out in (ours, theirs))
    for one, other in zip(*pairs, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-3)
