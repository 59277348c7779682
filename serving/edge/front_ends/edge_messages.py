"""Messages of an edge in a process of its own to the engine core, beside those of vLLM's protocol.

Each is the argument of a utility call of vLLM's, encoded: `ADMIT` and `PLACES` are answered with a `Judgement`, `WARM`
once the edge may serve, the others not; `DROPPED` has `DroppedMessages`. `ADMIT` and `WARM` come again under the same
number if no answer does.
"""

from typing import Any, Literal

import msgspec

from serving.admission_request import AdmissionRequest
from serving.cluster.streams.sockets import Address
from serving.edge.delivery.token_order import LastTokens
from serving.edge.text_choice import TextNeeds
from serving.refusals import Refusal
from serving.types import Count

ABORT, ADMIT, DELAYS, DROPPED = "foreserve_abort", "foreserve_admit", "foreserve_delays", "foreserve_dropped"
ENDED, INBOX, KEPT, MISSING = "foreserve_ended", "foreserve_inbox", "foreserve_kept", "foreserve_missing"
PLACES, PULSE, STOP = "foreserve_places", "foreserve_pulse", "foreserve_stop"
UP, WARM = "foreserve_up", "foreserve_warm"
CALL = "foreserve-call"
"""The name of the number of a request's call among vLLM's trace headers, which nothing else uses here."""
NO_ANSWER = 0
"""The id of a utility call that nobody waits for; of an answer, `AbortedRequests` that the core passes on."""


class BroughtCall(msgspec.Struct, array_like=True, frozen=True):
    """A call (see `Call`) as it arrived at its edge, which has a `number` for it."""

    number: Count
    route: str
    arrival_s: float
    headers: list[tuple[str, str]]
    body: dict[str, Any]
    posted_s: float | None = None


class AdmissionCall(msgspec.Struct, array_like=True, frozen=True):
    """A request of a call asks to be admitted: `id` is vLLM's.

    Of what is `asked` the options are not read yet. `text` is what it asks of its text.
    """

    call: BroughtCall
    id: str
    asked: AdmissionRequest
    priority: int
    extra_args: dict[str, Any]
    text: TextNeeds


class Judgement(msgspec.Struct, array_like=True, frozen=True):
    """The answer: why the request is refused, if it is, the headers that its answer carries, and whether its text is
    recorded."""

    refusal: Refusal | None
    answer: dict[str, str]
    recorded: bool


class TurnedAway(msgspec.Struct, array_like=True, frozen=True):
    """The edge has refused a call by itself, with what the core has said of another one just now.

    The answer is what the core would say now.
    """

    call: BroughtCall
    refusal: Refusal


class CallEnd(msgspec.Struct, array_like=True, frozen=True):
    """A call was answered with a `status`, as HTTP or gRPC writes it, or broken off (""). `brought`: one that the edge
    has refused by itself, and the core has not heard of before."""

    call: Count
    status: str
    brought: BroughtCall | None = None


class ReleaseDelays(msgspec.Struct, array_like=True, frozen=True):
    """Devices' releases that have gone out, each so many real seconds late."""

    late_s: list[tuple[int, float]]


class TokenInbox(msgspec.Struct, array_like=True, frozen=True):
    """Where this edge gets tokens, from devices and from the engine core; told before any request, and with each pulse,
    as all of its tokens would be lost with it."""

    address: Address


class KeptRequests(msgspec.Struct, array_like=True, frozen=True):
    """The calls and requests of this edge that have not ended here; told with each pulse. What the core has of others
    has ended, and the message that said so was lost: messages come in their order."""

    calls: list[Count]
    requests: list[str]


class AbortedRequests(msgspec.Struct, array_like=True, frozen=True):
    """A client has aborted requests, by the ids that it has given them, and the edge that was told has none of them:
    each of the others is to end those that it has."""

    ids: list[str]


class MissingTokens(msgspec.Struct, array_like=True, frozen=True):
    """Requests of which the tokens from a position of their output on have not come: later ones are here, or nothing of
    them has come for long."""

    positions: list[tuple[str, Count]]


class StoppedRequests(msgspec.Struct, array_like=True, frozen=True):
    """Requests that the edge has ended: their text has come to a stop string (`stop`), could not be made or written
    (`give_up`), or their clients have gone (`cancel`). Devices may have told the edge alone of the `last` tokens."""

    ids: list[str]
    how: Literal["stop", "give_up", "cancel"]
    last: list[LastTokens] = []
