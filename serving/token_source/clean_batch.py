"""Cleanup of vLLM's model runner after a step that failed: no trace of it stays in the persistent batch."""

from typing import Any

import torch
from vllm.v1.engine.core import EngineCore


def clean_batch(core: EngineCore) -> None:
    """Empty the persistent batch of an engine's model runner.

    A step that fails while requests are added to the batch leaves half-filled rows, and holes that nothing records. A
    request of the batch is added again with its next step, like any that had no step for a while. Raise AttributeError
    where the runner is of another kind, or in another process.
    """
    with torch.inference_mode():
        _clean(core.model_executor.driver_worker.worker.model_runner)


def _clean(runner: Any) -> None:
    runner.execute_model_state = None
    batch = runner.input_batch
    changes, rows = batch.batch_update_builder, len(batch._req_ids)
    changes.reset()
    for request_id in list(batch.req_id_to_index):
        batch.remove_request(request_id)
    # Logits processors keep state by row number: they are told that all rows are removed, the holes too.
    changes.reset()
    for row in range(rows):
        changes.removed_append(row)
    batch.condense()
