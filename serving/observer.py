"""Who hears of steps and requests, of a server as in virtual time: metrics, logs, traces, forecasts, studies."""

from typing import Generic, Protocol, TypeVar

from serving.types import Request, StepRecord


class Ended(Protocol):
    """A request that has ended, on a device: a server's `Flight`, or an `Outcome` of virtual time."""

    @property
    def request(self) -> Request: ...

    @property
    def device(self) -> int: ...

    @property
    def ttft_s(self) -> float: ...

    @property
    def tpot_s(self) -> float: ...


Course = TypeVar("Course", bound=Ended, contravariant=True)


class Observer(Generic[Course]):
    """Hears of everything and does nothing about it; made to be extended. Given at construction to whoever tells.

    Each device's steps come in order, and its requests in the order of their ends.
    """

    def on_step(self, record: StepRecord) -> None:
        """Hear of a device's step (in virtual time perhaps several equal ones), when all that came of it was told."""

    def on_finish(self, flight: Course) -> None:
        """Hear that a request has ended, for the reason that its flight now names."""
