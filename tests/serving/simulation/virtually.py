"""Devices of a test's own making, fed with requests in virtual time."""

from collections.abc import Callable, Iterable, Sequence

from serving.simulation.node import Outcome, VirtualNode
from serving.types import NEVER, Request, StepRecord


def serve_virtually(
    requests: Iterable[Request],
    nodes: Sequence[VirtualNode],
    choose: Callable[[Request], int] = lambda request: 0,
) -> tuple[list[Outcome], list[StepRecord]]:
    """Serve all `requests`, ordered by arrival; what became of each, in their order, and all steps by device."""
    outcomes = []
    for request in requests:
        for node in nodes:
            node.run(request.arrival_s)
        outcomes.append(nodes[choose(request)].submit(request))
    for node in nodes:
        node.run(NEVER)
    return outcomes, [record for node in nodes for record in node.records]
