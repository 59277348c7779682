"""The requests of a workload file, as a load run sends them."""

from collections.abc import Iterable, Iterator
from itertools import groupby

from serving.load.options import LoadOptions, OptionError
from serving.load.texts import prepare, text_of
from serving.load.workload import LoadRequest
from serving.workload import Ask, Source, WorkloadError, load_workload
from serving.workload.virtual import seed_of

SLO, TOPIC, NAME = "x-foreserve-slo", "x-foreserve-topic", "x-request-id"


class Planned:
    """Iterating gives the requests that wait for no other one, `after` those that do.

    A trace that turns out to be wrong in its middle ends the run; `error` is why.
    """

    def __init__(self, source: Source, tell_topic: bool, told: bool = False) -> None:
        """Requests that are `told` say their names and seeds."""
        self._source, self._tell_topic, self._told = source, tell_topic, told
        self.error: WorkloadError | None = None

    @classmethod
    def of(cls, options: LoadOptions) -> "Planned":
        """The workload that the options name; raises OptionError."""
        assert options.workload is not None
        try:
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
        """What is sent because a request ended, or failed, at `at_s`."""
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
        seed = seed_of(ask) if self._told else None
        return LoadRequest(ask.arrival_s, prompt, ask.output_tokens, messages, headers, ask.key, ask, seed)


def _check_sendable(names: Iterable[str]) -> None:
    for name in names:
        if not (name.isascii() and name.isprintable()):
            raise WorkloadError(f"{name!r} cannot be sent: SLO classes, topics and keys must be printable ASCII.")
