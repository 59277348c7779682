"""Mode choice: the mode policy of a device, by a scenario's choice and the device model."""

from typing import NamedTuple

from serving.policies.modes import Bounds, Modes
from serving.policies.regrets import RegretTable
from serving.policies.step_options import StepOptions
from serving.scenario.draft_depth import DepthChoice, DraftDepth
from serving.usage_error import UsageError

TAU = "tau"
"""The mode that speculates from some batch on."""

# The shares of the calibrated depth that `auto` weighs; beyond it, acceptance was never measured.
SHARES = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0)


class ModeChoice(NamedTuple):
    """A scenario's choice of mode: the policy by name; `tau`, the batch from which to speculate (0: wherever it is
    faster); `depth` of drafts; the `objective` of choices by cost."""

    mode: str
    tau: int
    depth: DraftDepth
    objective: str

    def modes(self, step_options: StepOptions) -> Modes:
        """Return the policy for a device. Raise UsageError for a depth its draft lacks, or a mode that needs a
        draft."""
        if not step_options.calibrated:
            if self.mode == "fixed-sd":
                sentence = "`mode` is 'fixed-sd', and there is no draft: name one that the system has (`draft`)."
                raise UsageError(sentence, "mode", "draft")
            return Modes.of("fixed-ar", ())
        depths = self.depths(step_options)
        bounds = Bounds(self.tau, RegretTable(step_options, depths))
        return Modes.of(self.mode, depths, bounds, self.objective)

    def depths(self, step_options: StepOptions) -> tuple[int, ...]:
        """Return the depths that drafts may have. Raise UsageError for one that the device's draft lacks."""
        if self.depth is DepthChoice.CALIBRATED:
            return (step_options.calibrated,)
        if self.depth is DepthChoice.BY_COST:
            return tuple(sorted({max(1, round(share * step_options.calibrated)) for share in SHARES}))
        if not 1 <= self.depth <= step_options.deepest:
            raise UsageError(
                f"`depth` is {self.depth}: it must be a whole number from 1 to {step_options.deepest}, or auto.",
                "depth",
            )
        return (self.depth,)
