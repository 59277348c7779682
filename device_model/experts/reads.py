"""The experts that a pass reads, and where it finds them."""

from typing import NamedTuple

from device_model.arrays import Number
from device_model.experts.locality_laws import PassTokens
from device_model.work import StepWork

TENSOR_PARALLEL = "HB banks are bound to their PEs: split the weights over all (5.1, TP)"
DATA_PARALLEL = "EXT streams to all PEs alike: share out the tokens (5.1, DP)"


class ExpertReads(NamedTuple):
    """The experts that a pass reads: `touched` of all, `hits` of these in HB, which has `hb_share` of a hit's bytes
    (EXT the rest), `written` into HB (of all), and `expert_bytes` of all experts at the precision of the pass.
    `beyond_hb` counts experts, as `residency.Reads` does."""

    touched: Number
    hits: Number
    written: Number
    expert_bytes: float
    hb_share: float = 1.0
    beyond_hb: Number = 0.0

    @property
    def hb_bytes(self) -> Number:
        return self.touched * self.hits * self.hb_share * self.expert_bytes

    @property
    def ext_bytes(self) -> Number:
        return self.touched * (1.0 - self.hits * self.hb_share) * self.expert_bytes


def tokens_of(work: StepWork) -> PassTokens:
    """Return the tokens of a pass as the laws of expert routing take them."""
    return PassTokens(work.decoding, work.drafts, work.prefill_tokens)
