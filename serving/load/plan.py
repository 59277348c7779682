"""Load plan: the requests of a workload, as a load run sends them."""

from collections.abc import Iterable, Iterator
from itertools import cycle, groupby
from typing import Any

from serving.load.client import RequestTimes
from serving.load.options import LoadOptions, OptionError
from serving.load.own_workload import workload_of
from serving.load.prompts import read_prompts
from serving.load.request import LoadRequest
from serving.load.texts import prepare, text_of
from serving.load.tool_calls import LEAST_ROOM, ToolCall, stand_in
from serving.security.header_text import fits_header
from serving.workload import Ask, Source, WorkloadError, load_workload
from serving.workload.ask import CALL, OFFER, TOOL
from serving.workload.virtual import seed_of

SLO, TOPIC, NAME = "x-foreserve-slo", "x-foreserve-topic", "x-request-id"


class LoadPlan:
    """The requests of a run: iteration yields those that wait for no other one, `after` returns those that do.

    A workload that proves invalid in its middle ends the run; `error` says why.
    """

    def __init__(
        self, source: Source, tell_topic: bool, told: bool = False, prompts: Iterator[str] | None = None
    ) -> None:
        """With `tell_topic`, send topics; with `told`, names and seeds; with `prompts`, send these in turn instead."""
        self._source, self._tell_topic, self._told, self._prompts = source, tell_topic, told, prompts
        self._tools = source.tools
        self._calls: dict[int, list[ToolCall]] = {}  # That agents have made, by their session.
        self.error: WorkloadError | None = None

    @classmethod
    def of(cls, options: LoadOptions) -> "LoadPlan":
        """Return the requests of the workload that the options name or describe. Raise OptionError if it is invalid."""
        prompts = cycle(read_prompts(options.prompts)) if options.prompts else None
        try:
            if options.workload is None:
                return cls(Source(workload_of(options)), True, options.told, prompts)
            workload = load_workload(options.workload, options.seed, options.num_requests, options.duration_s)
            if workload.agents and options.endpoint != "chat":
                raise WorkloadError(f"{options.workload} has `agents`, which call tools: they need --endpoint chat.")
            _check_sendable((*workload.slo.names, *workload.keys.names))
            planned = cls(Source(workload), workload.tell_topic, options.told)
        except WorkloadError as error:
            raise OptionError(str(error)) from error
        prepare(workload.topics.names)
        return planned

    def __iter__(self) -> Iterator[LoadRequest]:
        try:
            for ask in self._source:
                yield self._request(ask)
        except WorkloadError as error:
            self.error = error

    def after(self, ended: LoadRequest, times: RequestTimes, at_s: float) -> LoadRequest | None:
        """Return the request that follows one which ended, or failed, at `at_s`; None if there is none."""
        if ended.ask is None or self.error:
            return None
        session = ended.ask.session
        if ended.calls:
            calls = self._calls.setdefault(session, [])
            calls.append(times.call or stand_in(len(calls)))
        try:
            ask = self._source.next_after(ended.ask, at_s)
            if ask is None or ask.session != session:
                self._calls.pop(session, None)
            return None if ask is None else self._request(ask)
        except WorkloadError as error:
            self.error = error
            return None

    def _request(self, ask: Ask) -> LoadRequest:
        messages = tuple(self._messages(ask))
        topic, name = ask.topic if self._tell_topic else "", ask.id if self._told else ""
        headers = tuple((header, value) for header, value in ((SLO, ask.slo), (TOPIC, topic), (NAME, name)) if value)
        _check_sendable((ask.slo, topic, ask.key))
        prompt = " ".join(message.get("content", "") for message in messages)
        if self._prompts is not None:
            prompt, messages = next(self._prompts), ()
        seed = seed_of(ask, self._source.seed) if self._told else None
        tokens = max(ask.output_tokens, LEAST_ROOM) if ask.calls else ask.output_tokens
        return LoadRequest(ask.arrival_s, prompt, tokens, messages, headers, ask.key, ask, seed, self._tools)

    def _messages(self, ask: Ask) -> Iterator[dict[str, Any]]:
        """Yield what was said in a session; of the calls of tools, those that were made."""
        calls = iter(self._calls.get(ask.session, ()))
        call = stand_in(0)
        for role, segments in groupby(ask.prompt, lambda segment: segment.role):
            if role == OFFER:  # A field of the request has it.
                continue
            if role == CALL:
                call = next(calls)
                yield call.message
                continue
            text = " ".join(map(text_of, segments))
            yield call.result(text) if role == TOOL else {"role": role, "content": text}


def _check_sendable(names: Iterable[str]) -> None:
    for name in names:
        if not fits_header(name):
            raise WorkloadError(f"{name!r} cannot be sent: SLO classes, topics and keys must be printable ASCII.")
