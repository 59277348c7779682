"""Forced replay: a logits processor by which a restarted token source repeats the tokens that are known.

A request runs again from its start, so that sampling state, penalties and stop conditions come out as they were; only
the choice of the known tokens is taken out of the sampler's hands.
"""

import torch
from vllm import SamplingParams
from vllm.v1.sample.logits_processor import AdapterLogitsProcessor, RequestLogitsProcessor

KNOWN_TOKENS = "foreserve_known_tokens"


class Replay(AdapterLogitsProcessor):  # type: ignore[misc]
    """A logits processor that forces a request's `extra_args[KNOWN_TOKENS]`, then leaves its logits alone."""

    def is_argmax_invariant(self) -> bool:
        return False

    def new_req_logits_processor(self, params: SamplingParams) -> RequestLogitsProcessor | None:
        known: list[int] | None = (params.extra_args or {}).get(KNOWN_TOKENS)
        if not known:
            return None

        def force(output_ids: list[int], logits: torch.Tensor) -> torch.Tensor:
            if len(output_ids) >= len(known):
                return logits
            forced = torch.full_like(logits, float("-inf"))
            forced[known[len(output_ids)]] = 0.0
            return forced

        return force
