"""Our sampler in a worker of vLLM, in the place of its own."""

from typing import Any

from vllm.config.model import PROCESSED_LOGPROBS_MODES

from serving.token_source.worker.inverse_sampler import InverseSampler
from serving.token_source.worker.logprob_rows import RowSampler


def sample_by_rows(runner: Any) -> None:
    """Have a model runner sample all rows of a batch as one operation."""
    runner.sampler.__class__ = RowSampler
    # vLLM's own sampler can also tell the probabilities after top-p, which ours never has for all of a row.
    if runner.sampler.logprobs_mode not in PROCESSED_LOGPROBS_MODES:
        runner.sampler.topk_topp_sampler = InverseSampler(
            lambda: runner.input_batch.num_tokens_no_spec - runner.input_batch.num_prompt_tokens
        )
