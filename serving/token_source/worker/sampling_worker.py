"""vLLM's CPU worker with our sampler, and without denormal numbers.

vLLM's attention takes four rows of queries where a model has three heads for each of keys and values: the fourth is
whatever lies in memory. Small integers read as floats are denormal, and each product with one costs a processor some
hundred cycles: with `foreserve-moe` and 64 requests more than half of a step. A model's own arithmetic has none that
would matter, so they count as zero.
"""

from typing import Any

import torch
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.worker.cpu_worker import CPUWorker

from serving.token_source.worker.few_rows import take_enough_rows
from serving.token_source.worker.lazy_zeros import lazy_zeros
from serving.token_source.worker.row_sampling import sample_by_rows


class SamplingWorker(CPUWorker):  # type: ignore[misc]
    """A worker that samples all rows of a batch as one operation, and takes denormal numbers for zero."""

    def execute_model(self, scheduler_output: SchedulerOutput) -> Any:
        # It is a thread's own, and whoever makes steps need not be who has made this worker. OpenMP's threads follow.
        torch.set_flush_denormal(True)
        return super().execute_model(scheduler_output)

    def initialize_from_config(self, kv_cache_config: Any) -> None:
        with lazy_zeros():
            super().initialize_from_config(kv_cache_config)

    def load_model(self, **kwargs: Any) -> None:
        take_enough_rows()
        super().load_model(**kwargs)
        sample_by_rows(self.model_runner)
