"""Mode choice: the mode policy of a device, by a scenario's choice and the device model."""

from typing import NamedTuple

from serving.policies.modes import ENERGY, SPEED, Bounds, Modes
from serving.policies.regrets import RegretTable
from serving.policies.step_option import StepModel
from serving.policies.step_options import StepOptions
from serving.policies.tree_choice import TreeChoice
from serving.scenario.draft_depth import DepthChoice, DraftDepth
from serving.usage_error import UsageError

TAU = "tau"
"""The mode that speculates from some batch on."""
PLAIN_MODE = "fixed-ar"
"""The mode that never does."""
DRAFT_MODE = "fixed-sd"
"""The mode that always does."""

# The shares of the calibrated depth that `auto` weighs; beyond it, acceptance was never measured.
SHARES = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0)


class ModeChoice(NamedTuple):
    """A scenario's choice of mode: the policy by name; `tau`, the batch from which to speculate (0: wherever it is
    faster); `depth` of drafts, their `width` and `verify` budget (0: not set); the `objective` of choices by cost."""

    mode: str
    tau: int
    depth: DraftDepth
    objective: str
    width: int = 0
    verify: int = 0

    @property
    def trees(self) -> TreeChoice:
        """The choice of width and budget, which is free where depth is."""
        return TreeChoice(self.width, self.verify, self.depth is DepthChoice.BY_COST, self.objective == ENERGY)

    def unused(self) -> list[str]:
        """Return the keys that are set, and say nothing in this mode: no contradiction, as modes are compared on what
        is otherwise one scenario."""
        plain = self.mode == PLAIN_MODE
        by_cost = self.mode not in (PLAIN_MODE, DRAFT_MODE, TAU) or (not plain and self.depth is DepthChoice.BY_COST)
        idle = {
            "tau": self.mode != TAU and bool(self.tau),
            "depth": plain and self.depth is not DepthChoice.CALIBRATED,
            "width": plain and bool(self.width),
            "verify": plain and bool(self.verify),
            "objective": not by_cost and self.objective != SPEED,
        }
        return [key for key, is_idle in idle.items() if is_idle]

    def modes(self, step_options: StepOptions, model: StepModel) -> Modes:
        """Return the policy for a device, of which `model` answers what tokens cost later. Raise UsageError for a depth
        its draft lacks, or a mode that needs a draft."""
        if not step_options.calibrated:
            if self.mode == DRAFT_MODE:
                sentence = "`mode` is 'fixed-sd', and there is no draft: name one that the system has (`draft`)."
                raise UsageError(sentence, "mode", "draft")
            return Modes.of(PLAIN_MODE, ())
        depths = self.depths(step_options)
        assert step_options.device.draft is not None
        self.trees.check(step_options.device.draft, depths)
        bounds = Bounds(self.tau, RegretTable(model, step_options.device.ext_bytes_per_s, depths))
        return Modes.of(self.mode, depths, bounds, self.objective)

    def depths(self, step_options: StepOptions) -> tuple[int, ...]:
        """Return the depths that drafts may have. Raise UsageError for one that the device's draft lacks."""
        if self.depth is DepthChoice.CALIBRATED:
            return (step_options.calibrated,)
        if self.depth is DepthChoice.BY_COST:
            most = self.verify or step_options.calibrated
            depths = {max(1, round(share * step_options.calibrated)) for share in SHARES}
            return tuple(sorted({min(depth, most) for depth in depths}))
        if not 1 <= self.depth <= step_options.deepest:
            raise UsageError(
                f"`depth` is {self.depth}: it must be a whole number from 1 to {step_options.deepest}, or auto.",
                "depth",
            )
        return (self.depth,)
