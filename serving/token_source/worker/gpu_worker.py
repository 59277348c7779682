"""vLLM's GPU worker with our sampler."""

from typing import Any

from vllm.v1.worker.gpu_worker import Worker

from serving.token_source.worker.row_sampling import sample_by_rows


class GpuWorker(Worker):  # type: ignore[misc]
    """A worker that samples all rows of a batch as one operation."""

    def load_model(self, **kwargs: Any) -> None:
        super().load_model(**kwargs)
        sample_by_rows(self.model_runner)
