"""Load plan: the requests of a workload, as a load run sends them."""

from collections.abc import Iterable, Iterator
from itertools import cycle, groupby

from serving.load.options import LoadOptions, OptionError
from serving.load.own_workload import workload_of
from serving.load.prompts import read_prompts
from serving.load.request import LoadRequest
from serving.load.texts import prepare, text_of
from serving.workload import Ask, Source, WorkloadError, load_workload
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
        self.error: WorkloadError | None = None

    @classmethod
    def of(cls, options: LoadOptions) -> "LoadPlan":
        """Return the requests of the workload that the options name or describe. Raise OptionError if it is invalid."""
        prompts = cycle(read_prompts(options.prompts)) if options.prompts else None
        try:
            if options.workload is None:
                return cls(Source(workload_of(options)), True, options.told, prompts)
            workload = load_workload(options.workload, options.seed, options.num_requests, options.duration_s)
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

    def after(self, ended: LoadRequest, at_s: float) -> LoadRequest | None:
        """Return the request that follows one which ended, or failed, at `at_s`; None if there is none."""
        if ended.ask is None or self.error:
            return None
        try:
            ask = self._source.next_after(ended.ask, at_s)
        except WorkloadError as error:
            self.error = error
            return None
        return None if ask is None else self._request(ask)

    def _request(self, ask: Ask) -> LoadRequest:
        parts = groupby(ask.prompt, lambda segment: segment.role)
        messages = tuple((role, " ".join(map(text_of, segments))) for role, segments in parts)
        topic, name = ask.topic if self._tell_topic else "", ask.id if self._told else ""
        headers = tuple((header, value) for header, value in ((SLO, ask.slo), (TOPIC, topic), (NAME, name)) if value)
        _check_sendable((ask.slo, topic, ask.key))
        prompt = " ".join(text for _, text in messages)
        if self._prompts is not None:
            prompt, messages = next(self._prompts), ()
        seed = seed_of(ask) if self._told else None
        return LoadRequest(ask.arrival_s, prompt, ask.output_tokens, messages, headers, ask.key, ask, seed)


def _check_sendable(names: Iterable[str]) -> None:
    for name in names:
        if not (name.isascii() and name.isprintable()):
            raise WorkloadError(f"{name!r} cannot be sent: SLO classes, topics and keys must be printable ASCII.")
