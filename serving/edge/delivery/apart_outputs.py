"""vLLM's output processor: an output that can't be processed is the failure of its request alone, and the text of who
wants nothing else goes past the rest of vLLM."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from vllm.sampling_params import RequestOutputKind
from vllm.v1.engine import EngineCoreOutput, EngineCoreRequest, FinishReason
from vllm.v1.engine.output_processor import OutputProcessor, OutputProcessorOutput, RequestState

from serving.call import current_call
from serving.edge.delivery.direct_streams import DirectStreams
from serving.edge.delivery.plain_stream import PlainStream
from serving.edge.refusals import GivenUp

log = logging.getLogger("foreserve")


class ApartOutputs(OutputProcessor):  # type: ignore[misc]
    """Processes outputs one by one: what is raised for one (its detokenizer, its log probabilities) goes to its client.

    vLLM's own takes any such error for the death of the engine, and tells all clients of it.
    """

    def __init__(self, direct: DirectStreams, give_up: Callable[[list[str]], None], *args: Any, **kwargs: Any) -> None:
        """`direct`: the streams whose tokens need not come here. `give_up` ends requests whose outputs could not be
        processed. The rest is `OutputProcessor`'s."""
        super().__init__(*args, **kwargs)
        self._direct, self._give_up = direct, give_up
        self._plain: dict[str, PlainStream] = {}

    def add_request(self, request: EngineCoreRequest, *args: Any, **kwargs: Any) -> None:
        """Expect outputs of a request, as vLLM's own does, and note in its call what vLLM calls it."""
        if (call := current_call()) is not None:
            call.internal_ids[request.external_req_id] = request.request_id
        super().add_request(request, *args, **kwargs)

    def divert(self, external_id: str) -> PlainStream | None:
        """Send the text of the current call's request to a stream from now on, until its last output, or an error, goes
        the usual way; return that, or None if it is over, or a request of which a stream can't tell all."""
        call = current_call()
        state = self.request_states.get(call.internal_ids.get(external_id, "")) if call is not None else None
        if state is None or not is_text_alone(state) or isinstance(state.queue.output, Exception):
            return None
        stream = PlainStream(state.request_id, state.detokenizer)
        if (waiting := state.queue.get_nowait()) is not None:
            stream.tokens += waiting.outputs[0].token_ids
            stream.put(waiting.outputs[0].text)
        self._plain[stream.request_id] = stream
        self._direct.add(stream)
        return stream

    def restore(self, stream: PlainStream) -> None:
        """Send nothing more of its request to a stream."""
        self._plain.pop(stream.request_id, None)
        self._direct.remove(stream.request_id)

    def process_outputs(self, engine_core_outputs: list[EngineCoreOutput], *args: Any, **kwargs: Any) -> Any:
        """vLLM's own, output by output; what goes into one stream is written at once."""
        to_abort: list[str] = []
        passed = dict[str, PlainStream]()
        for output in engine_core_outputs:
            if output.finish_reason is FinishReason.ERROR:
                passed.pop(output.request_id, None)
                self._give_up(self._fail(output.request_id, GivenUp(output.stop_reason)))
                continue
            with self._apart(output.request_id):
                if (stream := self._plain.get(output.request_id)) is not None and self._passed(output, stream):
                    passed[output.request_id] = stream
                    continue
                if (stream := passed.pop(output.request_id, None)) is not None:
                    stream.flush()
                to_abort += super().process_outputs([output], *args, **kwargs).reqs_to_abort
        for id, stream in passed.items():
            with self._apart(id):
                stream.flush()
        return OutputProcessorOutput(request_outputs=[], reqs_to_abort=to_abort)

    @contextmanager
    def _apart(self, request_id: str) -> Iterator[None]:
        """Take what is raised meanwhile for the failure of one request."""
        try:
            yield
        except Exception as error:
            log.exception("The output of a request could not be processed.", extra={"request": request_id})
            self._give_up(self._fail(request_id, error))

    def fail_all(self, why: str) -> list[str]:
        """Give every request up; return their ids."""
        return [id for request_id in list(self.request_states) for id in self._fail(request_id, GivenUp(why))]

    def _passed(self, output: EngineCoreOutput, stream: PlainStream) -> bool:
        """Add what an output has to its stream, if that is text alone and not the last of it."""
        state = self.request_states.get(output.request_id)
        if state is None or output.finish_reason is not None or output.new_logprobs is not None:
            self.restore(stream)
            return False
        stream.add(output.new_token_ids)
        return True

    def _fail(self, request_id: str, error: Exception) -> list[str]:
        state = self.request_states.get(request_id)
        if state is None:
            return []
        queue = state.queue
        # Of several choices none has a client any more: vLLM aborts those of a parent with it.
        family = state.parent_req.request_id if state.parent_req is not None else request_id
        aborted: list[str] = self.abort_requests([family], internal=True)
        if queue is not None:
            queue.put(error)
        return aborted


def is_text_alone(state: RequestState) -> bool:
    """Tell whether a request's outputs are text and nothing else, each sent when it is there. Where a stop string may
    end it, vLLM is to look for that."""
    whole = state.output_kind is RequestOutputKind.DELTA and state.stream_interval == 1 and not state.streaming_input
    alone = state.parent_req is None and state.logprobs_processor.num_logprobs is None
    return whole and alone and not getattr(state.detokenizer, "stop", None)
