"""vLLM's output processor, for which an output that can't be processed is the failure of its request alone."""

import logging
from typing import Any

from vllm.v1.engine import EngineCoreOutput, FinishReason
from vllm.v1.engine.output_processor import OutputProcessor, OutputProcessorOutput

from serving.edge.refusals import GivenUp

log = logging.getLogger("foreserve")


class ApartOutputs(OutputProcessor):  # type: ignore[misc]
    """Processes outputs one by one: what is raised for one (its detokenizer, its log probabilities) goes to its client.

    vLLM's own takes any such error for the death of the engine, and tells all clients of it.
    """

    def process_outputs(self, engine_core_outputs: list[EngineCoreOutput], *args: Any, **kwargs: Any) -> Any:
        """vLLM's own, output by output."""
        to_abort: list[str] = []
        for output in engine_core_outputs:
            if output.finish_reason is FinishReason.ERROR:
                to_abort += self._fail(output.request_id, GivenUp(output.stop_reason))
                continue
            try:
                to_abort += super().process_outputs([output], *args, **kwargs).reqs_to_abort
            except Exception as error:
                log.exception("The output of a request could not be processed.", extra={"request": output.request_id})
                to_abort += self._fail(output.request_id, error)
        return OutputProcessorOutput(request_outputs=[], reqs_to_abort=to_abort)

    def _fail(self, request_id: str, error: Exception) -> list[str]:
        state = self.request_states.get(request_id)
        if state is None:
            return []
        queue = state.queue
        aborted: list[str] = self.abort_requests([request_id], internal=True)
        if queue is not None:
            queue.put(error)
        return aborted
