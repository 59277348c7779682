"""Asks as the scheduler takes them, for runs in virtual time."""

from collections.abc import Mapping

from serving.nearest_name import meant
from serving.scenario.slo import SloClass
from serving.types import Request
from serving.workload.ask import Ask, block_hashes
from serving.workload.seeded_chance import named
from serving.workload.table import WorkloadError

NO_CLASS = SloClass("")
# A seed is sent to servers too, and numbers of JSON, and of our gRPC service, are whole up to here.
SEED_BITS = 53


def request_of(ask: Ask, classes: Mapping[str, SloClass], block_tokens: int) -> Request:
    """Return the request with its SLO class's targets and the hashes of its prompt's whole blocks (none if
    `block_tokens` is 0). Raise `WorkloadError` for an unknown class."""
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
        seed=seed_of(ask),
        topic=ask.topic,
        key=ask.key,
        priority=slo.priority,
        ttft_s=slo.ttft_s,
        tpot_s=slo.tpot_s,
        blocks=block_hashes(ask.prompt, block_tokens) if block_tokens else [],
    )


def seed_of(ask: Ask) -> int:
    """Return the seed of all that chance decides about serving a request, live and in virtual time."""
    return named(ask.id) >> 64 - SEED_BITS
