"""A scenario's scheduler, for a device: what it may take on, and by which policies."""

from device_model.device import RooflineDevice
from device_model.step import StepPlan
from serving.rules import Limits, Rules
from serving.scenario import Scenario, ScenarioError
from serving.ways import Ways

# Prompts whose times tell what others take: the law between them is nearly a line.
SHORT, LONG = 256, 1024


def limits_of(scenario: Scenario, device: RooflineDevice) -> Limits:
    """What the device takes on. Raises `ScenarioError` if the KV cache must lie in HB, and HB has no room for any."""
    most, spill = device.kv_capacity_tokens, 0
    if scenario.kv_tier == "hb":
        in_hb = device.kv_capacity_in_hb_tokens
        if not in_hb:
            raise ScenarioError(f"`kv_tier` is 'hb', and in HB of {scenario.hardware} is no room for a KV cache.")
        most, spill = in_hb, most - in_hb
    return Limits(scenario.max_num_seqs, scenario.max_num_batched_tokens, most, scenario.block_tokens, spill)


def rules_of(scenario: Scenario, ways: Ways) -> Rules:
    """The policies, with what they know of the device: how long a prompt takes."""
    base_s, token_s = prefill_pace(ways.device)
    return Rules(
        batching=scenario.batching,
        prefill=scenario.prefill,
        prefill_chunk=scenario.prefill_chunk,
        preemption=scenario.preemption,
        fairness=scenario.fairness,
        prefix_caching=scenario.prefix_caching,
        # In a step that drafts a sequence may have as many tokens more.
        lookahead=ways.deepest if scenario.mode != "fixed-ar" else 0,
        patience_s=scenario.patience_s,
        hold_s=scenario.topic_hold_s,
        prefill_base_s=base_s,
        prefill_token_s=token_s,
    )


def prefill_pace(device: RooflineDevice) -> tuple[float, float]:
    """Seconds of a prompt by itself: those of any, and those of each token."""
    short_s, long_s = (float(device.probe(StepPlan.of((tokens, 0))).latency_s[0]) for tokens in (SHORT, LONG))
    token_s = max(0.0, (long_s - short_s) / (LONG - SHORT))
    return max(0.0, short_s - SHORT * token_s), token_s
