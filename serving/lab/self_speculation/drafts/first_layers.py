"""The first layers of the target as its draft: plain early exit.

M2R2 (2.1.2, A.2) drafts with the first k layers too, but from an accelerated residual stream that low-rank adapters,
trained for it, bring close to the last layer's. There are no such adapters here: the hidden state after k layers goes
straight to the final norm and the head, which is the baseline that M2R2 calls DEED's weak alignment, less its training.
"""

from serving.lab.self_speculation.draft import BF16_BITS, Bits, DraftModel
from serving.lab.self_speculation.weights import ModelWeights


def first_layers(target: ModelWeights, layers: int) -> DraftModel:
    """Return the draft of the first `layers` of a BF16 target."""
    if not 1 <= layers <= len(target.layers):
        raise ValueError(f"layers is {layers}; allowed is 1 to {len(target.layers)}")
    return DraftModel(target, Bits(BF16_BITS, BF16_BITS), exit_after=layers)
