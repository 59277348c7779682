"""vLLM's CPU worker with our sampler."""

from typing import Any

from vllm.config.model import PROCESSED_LOGPROBS_MODES
from vllm.v1.worker.cpu_worker import CPUWorker

from serving.token_source.worker.inverse_sampler import InverseSampler
from serving.token_source.worker.lazy_zeros import lazy_zeros
from serving.token_source.worker.logprob_rows import RowSampler


class SamplingWorker(CPUWorker):  # type: ignore[misc]
    """A worker that samples all rows of a batch as one operation."""

    def initialize_from_config(self, kv_cache_config: Any) -> None:
        with lazy_zeros():
            super().initialize_from_config(kv_cache_config)

    def load_model(self, **kwargs: Any) -> None:
        super().load_model(**kwargs)
        runner = self.model_runner
        runner.sampler.__class__ = RowSampler
        # vLLM's own sampler can also tell the probabilities after top-p, which ours never has for all of a row.
        if runner.sampler.logprobs_mode not in PROCESSED_LOGPROBS_MODES:
            runner.sampler.topk_topp_sampler = InverseSampler(
                lambda: runner.input_batch.num_tokens_no_spec - runner.input_batch.num_prompt_tokens
            )
