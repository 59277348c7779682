"""vLLM's CPU worker with our sampler."""

from typing import Any

from vllm.v1.worker.cpu_worker import CPUWorker

from serving.token_source.worker.lazy_zeros import lazy_zeros
from serving.token_source.worker.row_sampling import sample_by_rows


class SamplingWorker(CPUWorker):  # type: ignore[misc]
    """A worker that samples all rows of a batch as one operation."""

    def initialize_from_config(self, kv_cache_config: Any) -> None:
        with lazy_zeros():
            super().initialize_from_config(kv_cache_config)

    def load_model(self, **kwargs: Any) -> None:
        super().load_model(**kwargs)
        sample_by_rows(self.model_runner)
