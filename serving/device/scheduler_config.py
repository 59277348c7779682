"""Scheduler configuration of a device: limits and rules, by a scenario."""

from serving.device.device_spec import DeviceLimits
from serving.scenario.scenario import Scenario
from serving.scheduler.config import Limits, SchedulerRules


def limits_of(scenario: Scenario, device_limits: DeviceLimits) -> Limits:
    """Return the scheduler's limits for a device of a scenario, in the condition of `device_limits`."""
    return Limits(
        scenario.max_num_seqs,
        scenario.max_num_batched_tokens,
        device_limits.kv_capacity_tokens,
        scenario.block_tokens,
        device_limits.spill_tokens,
        device_limits.prompts,
    )


def rules_of(scenario: Scenario, device_limits: DeviceLimits) -> SchedulerRules:
    """Return the scheduler's rules for a device of a scenario."""
    return SchedulerRules(
        batching=scenario.batching,
        prefill=scenario.prefill,
        prefill_chunk=scenario.prefill_chunk,
        preemption=scenario.preemption,
        fairness=scenario.fairness,
        prefix_caching=scenario.prefix_caching,
        # In a step that drafts a sequence may have as many tokens more.
        lookahead=device_limits.deepest if scenario.mode != "fixed-ar" else 0,
        patience_s=scenario.patience_s,
        hold_s=scenario.topic_hold_s,
        schedules_ahead=device_limits.schedules_ahead,
    )
