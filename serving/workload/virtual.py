"""Asks as the scheduler takes them, for runs in virtual time."""

from collections.abc import Mapping

from serving.nearest_name import meant
from serving.scenario.slo import SloClass
from serving.types import Request
from serving.workload.ask import Ask, block_hashes
from serving.workload.seeded_chance import MASK, named
from serving.workload.table import WorkloadError

NO_CLASS = SloClass("")
# A seed is sent to servers too, and numbers of JSON, and of our gRPC service, are whole up to here.
SEED_BITS = 53
# An odd number whose bits look like chance (2**64 divided by the golden ratio): seeds far apart for 0, 1, 2.
APART = 0x9E3779B97F4A7C15


def request_of(ask: Ask, classes: Mapping[str, SloClass], block_tokens: int, seed: int) -> Request:
    """Return the request with its SLO class's targets and the hashes of its prompt's whole blocks (none if
    `block_tokens` is 0), of a workload with this `seed`. Raise `WorkloadError` for an unknown class."""
    slo = classes.get(ask.slo, None if ask.slo else NO_CLASS)
    if slo is None:
        allowed = ", ".join(classes) or "none"
        raise WorkloadError(
            f"The workload has requests of SLO class {ask.slo!r}; the scenario has {allowed}{meant(ask.slo, classes)}."
        )
    return Request(
        ask.id,
        ask.arrival_s,
        ask.prompt_tokens,
        ask.output_tokens,
        seed=seed_of(ask, seed),
        topic=ask.topic,
        key=ask.key,
        priority=slo.priority,
        ttft_s=slo.ttft_s,
        tpot_s=slo.tpot_s,
        blocks=block_hashes(ask.prompt, block_tokens) if block_tokens else [],
    )


def seed_of(ask: Ask, seed: int) -> int:
    """Return the seed of all that chance decides about serving a request of a workload with this `seed`, live and in
    virtual time."""
    return ((named(ask.id) + seed * APART) & MASK) >> 64 - SEED_BITS
