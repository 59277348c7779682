"""*Accelerator*: what the emulated devices do, by what the device model says of each step."""

from grafana_foundation_sdk.builders import timeseries

from serving.cluster.node import State
from tools.dashboards.frame import Panels, dashboard
from tools.dashboards.panels import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    QUANTILES,
    RED,
    SKY,
    YELLOW,
    Query,
    areas,
    by_device,
    cells,
    dashed,
    figure,
    fixed,
    limit,
    lines,
    painted,
    states,
)
from tools.dashboards.promql import (
    EACH,
    HERE,
    RANGE,
    WINDOW,
    emulated,
    encoded,
    happened,
    mean,
    quantile,
    quotient,
    rate,
    ratio,
    select,
    speed,
    split,
    summed,
)
from tools.dashboards.tiers import FAST, SLOW, any_of

DEVICE = "{{instance}} · {{device}}"
PHASES = ("prefill", "mixed", "decode")
MODES = {"ar": BLUE, "sd": ORANGE}
STATES = dict(zip(map(str, State), (SKY, GREEN, YELLOW, RED, BLACK), strict=True))
STAGES = {
    **{"prefill": PURPLE, "mixed": SKY, "decode": BLUE, "draft": ORANGE, "verify": GREEN, "update": YELLOW},
    "move": RED,
}
TIERS = {**dict.fromkeys(FAST, GREEN), **dict.fromkeys(SLOW, ORANGE)}
COMPONENTS = {"compute": BLUE, **TIERS, "comm": PURPLE, "static": BLACK, "between steps": SKY}
KINDS = {"static": BLACK, "kv": BLUE, "draft": PURPLE, "experts": GREEN}
# Of policies for the mode: those of the first line speculate.
REASONS = {
    **dict.fromkeys(("at least tau", "drafting is faster"), ORANGE),
    **{"more tokens per second": RED, "more tokens per joule": YELLOW},
    **dict.fromkeys(("below tau", "drafting is slower"), BLUE),
    **{"as good": SKY, "nothing decodes": BLACK, "no draft": PURPLE, "fixed": GREEN},
}
FAULTS = {**TIERS, "slow": ORANGE, "fast": GREEN, "clock": PURPLE, "stall": BLUE, "lost": RED}
TOKENS_OUT = "foreserve_released_tokens_total"


def made() -> str:
    """Return the dashboard as JSON."""
    text = "Modes, steps, memory, speculation, energy and faults of the emulated devices. Seconds are emulated ones."
    rows = {
        "": figures(),
        "Devices and modes": modes(),
        "Steps": steps(),
        "Memory": memory(),
        "Speculation": speculation(),
        "Energy": energy(),
        "Faults": faults(),
    }
    return dashboard("accelerator", "Accelerator", text, rows)


def figures() -> Panels:
    """How it is at a glance."""
    serving = select("foreserve_device", 'state="serving"')
    working = select("foreserve_device", 'state=~"serving|draining"')
    accepted, drafted = "vllm:spec_decode_num_accepted_tokens_total", "vllm:spec_decode_num_draft_tokens_total"
    drawn = f"{summed(rate('foreserve_energy_joules_total'))} + {summed(rate('foreserve_idle_energy_joules_total'))}"
    return [
        figure("Devices serving", "Devices that take requests.", "none", Query(summed(serving)), {0: RED, 1: GREEN}),
        figure("Busy", "Share of emulated time in which the devices worked.", "percentunit",
               Query(ratio(emulated("foreserve_busy_seconds_total"), f"sum(avg_over_time({working}[{WINDOW}]))"))),
        figure("Tokens", "Released per emulated second.", "suffix: tok/s", Query(emulated(TOKENS_OUT))),
        figure("Step", "Mean modelled latency of a step.", "s", Query(mean("foreserve_step_latency_seconds"))),
        figure("Expert hits", "Share of the reads of an expert that the fast tier held.", "percentunit",
               Query(quotient("foreserve_expert_hits_total", "foreserve_expert_lookups_total"))),
        figure("Drafts accepted", "Share of the tokens drafted.", "percentunit", Query(quotient(accepted, drafted))),
        figure("Energy per token", "Modelled joules, between steps too, per token released.", "joule",
               Query(ratio(f"({drawn})", summed(rate(TOKENS_OUT))))),
        figure("Power", "Of all devices, mean over the last emulated second.", "watt",
               Query(summed(select("foreserve_power_watts")))),
    ]  # fmt: skip


def modes() -> Panels:
    """Which mode, since when and why; and whether a device is there at all."""
    return [
        states("State of each device", "serving takes requests, draining finishes those it has, lost is gone for now, "
               "and gone for good.", Query(encoded("foreserve_device", "state", list(STATES)), DEVICE), STATES),
        states("Mode of each device", "Of its last step that decoded: ar is plain decoding, sd speculation.",
               Query(encoded("foreserve_mode", "mode", list(MODES)), DEVICE), MODES),
        by_reason(lines(
            "Switches", "Changes of the mode between two points, by the new mode and the reason. The first of a kind "
            "shows only as a mark.", "none",
            Query(happened("foreserve_mode_switches_total", by="to, reason"), "to {{to}}: {{reason}}"),
        )),
        by_reason(lines(
            "Steps by mode and reason", "Share of all steps.", "percentunit",
            Query(ratio(summed(rate("foreserve_mode_steps_total"), "mode, reason"),
                        summed(rate("foreserve_mode_steps_total")), "on () group_left ()"), "{{mode}}: {{reason}}"),
        ).max(1)),
        painted(areas(
            "Where steps spend their time", "Share of modelled time: a draft's passes, verifying, updating its "
            "experts, plain decoding, prompts (mixed: both in a step), and moving experts and KV between tiers.",
            "percentunit", Query(split("foreserve_stage_seconds_total", "stage"), "{{stage}}"),
        ).max(1), STAGES),
    ]  # fmt: skip


def by_reason(panel: timeseries.Panel) -> timeseries.Panel:
    """Series in colours, by the reason at the end of their name."""
    for reason, color in REASONS.items():
        panel = panel.override_by_regexp(f"/: {reason}$/", [fixed(color)])
    return panel


def steps() -> Panels:
    """How long they take, and of how many sequences."""
    latency, batch = "foreserve_step_latency_seconds", "foreserve_batch_size"
    return [
        painted(lines(
            "Step latency", "As modelled, of all modes.", "s",
            *(Query(quantile(q, latency), f"p{100 * q:g}") for q in (0.5, 0.9, 0.99)), Query(mean(latency), "mean"),
        ), QUANTILES),
        dashed(painted(lines(
            "Step latency by mode and phase", "Mean, as modelled; dashed: speculation, whose steps make several "
            "tokens.", "s", Query(mean(latency, "mode, phase"), "{{mode}}: {{phase}}"),
        ), {f"{mode}: {phase}": STAGES[phase] for mode in MODES for phase in PHASES}), "^sd"),
        painted(lines(
            "Batch size", "Sequences in a step.", "none",
            *(Query(quantile(q, batch), f"p{100 * q:g}") for q in (0.5, 0.9)), Query(mean(batch), "mean"),
        ), QUANTILES),
        by_device(lines(
            "Batch size by device", "Mean number of sequences in a step.", "none", Query(mean(batch, EACH), DEVICE),
        )),
        by_device(lines(
            "Busy", "Share of emulated time in which a device worked.", "percentunit",
            Query(emulated("foreserve_busy_seconds_total", by=EACH), DEVICE),
        ).max(1)),
        by_device(lines(
            "Steps", "Per emulated second.", "suffix: steps/s",
            Query(emulated("foreserve_step_latency_seconds_count", by=EACH), DEVICE),
        )),
    ]  # fmt: skip


def memory() -> Panels:
    """Bandwidth, what lies where, and what moves."""
    moved = f"{rate('foreserve_tier_bytes_total')} / {HERE} {speed()}"
    bandwidth = f"{summed(moved, f'{EACH}, tier')} / (max by ({EACH}, tier) "
    bandwidth += f"({select('foreserve_tier_bandwidth_bytes_per_second')}) > 0)"
    hits, lookups = "foreserve_expert_hits_total", "foreserve_expert_lookups_total"
    return [
        dashed(by_device(limit(lines(
            "Bandwidth in use", "Traffic per emulated second over what the tier delivers now to a device that has it "
            "for itself (dashed: fast tiers); devices that share a slow tier add up to 1 at most.", "percentunit",
            Query(bandwidth, "{{tier}} {{instance}} · {{device}}"),
        ), 1)), f"^({any_of(FAST)}) "),
        occupied(FAST, "!~", "Fast tiers in use", "By tier and kind, all devices together; dashed: what they have. "
                 "Where experts are copies, they make room for the KV cache."),
        occupied(SLOW, "=~", "Slow tiers in use", "By tier and kind, all devices together; dashed: what they have. A "
                 "link holds nothing."),
        by_device(lines(
            "Expert hits", "Share of the reads of an expert by steps that the fast tier held.", "percentunit",
            Query(quotient(hits, lookups, EACH), DEVICE),
        ).max(1)),
        by_device(lines(
            "Experts swapped", "Times per emulated second that the fast tier was given the experts of other topics.",
            "suffix: swaps/s", Query(emulated("foreserve_expert_swaps_total", by=EACH), DEVICE),
        )),
        by_device(lines(
            "Time spent swapping", "Share of emulated time in which a device gave experts other places.",
            "percentunit", Query(emulated("foreserve_expert_swap_seconds_total", by=EACH), DEVICE),
        )),
        painted(lines(
            "KV cache moved", "Tokens per emulated second whose keys and values went to the slow tier, or came back.",
            "suffix: tok/s",
            Query(emulated("foreserve_kv_moved_tokens_total", by="direction"), "{{direction}}"),
        ), {"spilled": ORANGE, "fetched": BLUE}),
    ]  # fmt: skip


def occupied(names: tuple[str, ...], matches: str, title: str, text: str) -> timeseries.Panel:
    """Return the panel of the memory of tiers by kind, below what there is of it. Whatever `matches` no slow tier is a
    fast one, so that those of hardware that came later are seen; `names` have colours."""
    those = f'tier{matches}"{any_of(SLOW)}"'
    used = summed(select("foreserve_tier_used_bytes", those), "tier, kind")
    capacity = summed(select("foreserve_tier_capacity_bytes", those), "tier")
    panel = areas(title, text, "bytes", Query(used, "{{tier}} {{kind}}"), Query(f"{capacity} > 0", "{{tier}} capacity"))
    colours = {f"{name} {kind}": colour for name in names for kind, colour in {**KINDS, "capacity": RED}.items()}
    return dashed(painted(panel, colours), " capacity$")


def speculation() -> Panels:
    """Return the panels of what becomes of drafts."""
    accepted, drafted = "vllm:spec_decode_num_accepted_tokens_total", "vllm:spec_decode_num_draft_tokens_total"
    position = ratio(
        summed(rate("vllm:spec_decode_num_accepted_tokens_per_pos_total"), "position"),
        summed(rate("vllm:spec_decode_num_drafts_total")),
        "on () group_left ()",
    )
    return [
        by_device(lines(
            "Drafts accepted", "Share of the tokens drafted.", "percentunit",
            Query(quotient(accepted, drafted, "instance, engine"), "{{instance}} · {{engine}}"),
        ).max(1)),
        by_device(lines(
            "Accepted length", "Mean drafts of a sequence that were accepted in a step; the step makes one more token.",
            "none", Query(mean("foreserve_accepted_length", EACH), DEVICE),
        )),
        by_device(lines(
            "Accepted by position", "Share of drafts of which the token at a position, and all before it, were "
            "accepted.", "percentunit", Query(position, "position {{position}}"),
        ).max(1), "position "),
        cells("Accepted length, distribution", "Sequences per emulated second by how many of their drafts a step "
              "accepted.", "none", Query(emulated("foreserve_accepted_length_bucket", by="le"), "{{le}}")).span(24),
    ]  # fmt: skip


def energy() -> Panels:
    """Joules by what draws them."""
    per_token = summed(rate(TOKENS_OUT))
    parts = ratio(summed(rate("foreserve_energy_joules_total"), "component"), per_token, "on () group_left ()")
    between = ratio(summed(rate("foreserve_idle_energy_joules_total")), per_token)
    return [
        painted(areas(
            "Energy per token", "Modelled joules per token released, by component; static power between steps apart.",
            "joule", Query(parts, "{{component}}"), Query(between, "between steps"),
        ), COMPONENTS),
        by_device(lines(
            "Power", "Of each device, mean over the last emulated second.", "watt",
            Query(f"sum by ({EACH}) ({select('foreserve_power_watts')})", DEVICE),
        )),
        painted(areas(
            "Power by component", "Modelled joules of steps per emulated second.", "watt",
            Query(emulated("foreserve_energy_joules_total", by="component"), "{{component}}"),
            Query(emulated("foreserve_idle_energy_joules_total"), "between steps"),
        ), COMPONENTS),
    ]  # fmt: skip


def faults() -> Panels:
    """Return the panels of what is broken."""
    bandwidth = select("foreserve_tier_bandwidth_bytes_per_second")
    return [
        painted(areas(
            "Faults now", "By kind, all devices together.", "none",
            Query(summed(select("foreserve_fault_active"), "kind"), "{{kind}}"),
        ), FAULTS),
        painted(lines(
            "Faults that came", "Between two points, by kind.", "none",
            Query(happened("foreserve_faults_total", by="kind"), "{{kind}}"),
        ), FAULTS),
        painted(lines(
            "Bandwidth left", "What the tiers deliver now, over the most in the time shown: less than 1 is throttled.",
            "percentunit",
            Query(f"min by (tier) ({ratio(f'({bandwidth} > 0)', f'max_over_time({bandwidth}[{RANGE}])')})", "{{tier}}"),
        ).max(1), TIERS),
    ]  # fmt: skip
