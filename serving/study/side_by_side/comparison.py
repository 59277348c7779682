"""Figures of each piece of hardware in a comparison, over all seeds, with joules by what the hardware calls its
tiers."""

from dataclasses import dataclass
from typing import Any

from device_model.specs.hardware import TierNames
from device_model.specs.hardware_file import load_hardware
from serving.study.point import VARIANT
from serving.study.questions import by_settings, pooled
from serving.study.results import Results
from serving.study.store import caveats_of
from serving.study.study import Finding
from serving.study.summary import COMPONENTS, Row

FIGURES = (
    *("requests", "refused", "attainment", "ttft_mean_s", "ttft_p50_s", "ttft_p99_s", "tpot_mean_s", "tpot_p50_s"),
    *("tpot_p99_s", "e2e_mean_s", "e2e_p99_s", "tokens_per_s", "goodput_per_s", "busy_share", "batch_mean", "hit_rate"),
    *("swaps", "swap_s", "swap_joules", "power_w", "j_per_token"),
)
IDLE = "idle"
PARTS = (*COMPONENTS, IDLE)
"""The parts of the joules: those of steps by component, and those of devices that had nothing to do."""


@dataclass(frozen=True, slots=True)
class HardwareFigures:
    """Figures of one piece of hardware under the workload (`serving.study.summary.COLUMNS`; with several seeds their
    mean), `part_j` [6], its joules per output token by `PARTS`, which add up to `j_per_token`, and its `runs`, one a
    seed."""

    hardware: str
    system: str
    tiers: TierNames
    figures: Row
    part_j: tuple[float, ...]
    caveats: str = ""
    runs: tuple[Finding, ...] = ()

    def __getitem__(self, name: str) -> float:
        value: float = self.figures[name]
        return value

    @property
    def energy(self) -> dict[str, float]:
        """Return joules per token by component, tiers by their names here."""
        own = {"fast": self.tiers.fast, "slow": self.tiers.slow}
        return {own.get(name, name): joules for name, joules in zip(PARTS, self.part_j, strict=True)}

    @property
    def told(self) -> dict[str, Any]:
        """Return it as an object of JSON."""
        head = {"hardware": self.hardware, "system": self.system, "tiers": list(self.tiers), "caveats": self.caveats}
        return head | self.figures | {"j_per_token_by_component": self.energy}

    @property
    def csv_row(self) -> Row:
        """Return it as a row whose columns are the same for all hardware."""
        head = {"hardware": self.hardware, "system": self.system, "fast_tier": self.tiers.fast}
        parts = {f"{name}_j_per_token": joules for name, joules in zip(PARTS, self.part_j, strict=True)}
        return head | {"slow_tier": self.tiers.slow, "caveats": self.caveats} | self.figures | parts


def compared(results: Results) -> list[HardwareFigures]:
    """Return the figures of all hardware that could be run, in the order of the study."""
    found = []
    for settings, group in by_settings(results.findings):
        hardware = load_hardware(results.study.variants[settings[VARIANT]]["hardware"])
        figures = {name: pooled(group, name) for name in FIGURES}
        tokens = pooled(group, "joules") / figures["j_per_token"] if figures["j_per_token"] else 1.0
        parts = tuple(pooled(group, f"{name}_joules") / tokens for name in PARTS)
        named = settings[VARIANT], hardware.system, hardware.tiers
        found.append(HardwareFigures(*named, figures, parts, caveats_of(group), tuple(group)))
    return found
