"""Records of steps that are planned and priced, but for what only their release tells."""

from serving.device.pricing import StepPrice
from serving.types import Batch, StepRecord


def planned_record(
    device: int, batch: Batch, priced: StepPrice, start_s: float, steps: int = 1, first: bool = False
) -> StepRecord:
    """Return the record of a batch's next step, or of `steps` equal ones of this price in all, from emulated instant
    `start_s` on. `first`: they begin the plan, so its own counts go into the record.

    How late they come, and how many tokens are missing, is left at 0.
    """
    shape = priced.plan.draft if priced.drafts and priced.plan is not None else None
    cost, seconds = priced.cost, priced.cost.seconds
    return StepRecord(
        device=device,
        mode="sd" if priced.drafts else "ar",
        phase=batch.phase,
        start_s=start_s,
        latency_s=cost.latency_s,
        batch=len(batch.ids),
        new_tokens=sum(batch.new_tokens) * steps,
        energy_j=tuple(cost.energy),
        traffic_bytes=tuple(cost.traffic),
        expert_lookups=cost.expert_lookups,
        expert_hits=cost.expert_hits,
        underruns=0,
        waiting=batch.waiting,
        kv_tokens=batch.kv_tokens,
        preemptions=batch.preemptions if first else 0,
        slips=batch.slips if first else 0,
        unrouted=priced.unrouted,
        drafts=priced.drafts,
        drafted=priced.drafts * priced.depth,
        accepted=sum(priced.accepted),
        reason=priced.reason,
        swaps=priced.swaps,
        spilled_tokens=batch.spilled_tokens if first else 0,
        fetched_tokens=batch.fetched_tokens if first else 0,
        queried_tokens=batch.queried_tokens if first else 0,
        cached_tokens=batch.cached_tokens if first else 0,
        draft_s=seconds.draft_s,
        target_s=seconds.target_s - priced.moved_s,
        update_s=seconds.update_s,
        moved_s=priced.moved_s,
        swap_s=priced.swap_s,
        swap_j=priced.swap_j,
        accepted_by=priced.accepted_by,
        steps=steps,
        hits_beyond_hb=cost.hits_beyond_hb,
        unpublished=round(cost.unpublished),
        width=shape.width if shape else 0,
        verified=priced.drafts * shape.verify_tokens if shape else 0,
        news_s=batch.news_s if first else [],
        decoding=batch.decoding,
        late_real_s=0.0,
    )
