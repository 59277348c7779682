"""Mode choice: the mode policy of a device, by a scenario's choice and the device model."""

from typing import NamedTuple

from device_model.acceptance import batch_plan
from serving.policies.modes import Modes
from serving.policies.step_options import PLAIN, StepOptions
from serving.scenario.draft_depth import DepthChoice, DraftDepth
from serving.usage_error import UsageError

# The shares of the calibrated depth that `auto` weighs; beyond it, acceptance was never measured.
SHARES = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
# Where `tau` looks for the batch from which on speculating pays.
BATCHES = range(1, 65)


class ModeChoice(NamedTuple):
    """A scenario's choice of mode: the policy by name; `tau`, the batch from which to speculate (0: the smallest where
    it is faster); `depth` of drafts; the `objective` of choices by cost."""

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
        depths = self._depths(step_options)
        return Modes.of(self.mode, depths, self.tau or faster_from(step_options, depths), self.objective)

    def _depths(self, step_options: StepOptions) -> tuple[int, ...]:
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


def faster_from(step_options: StepOptions, depths: tuple[int, ...]) -> int:
    """Return tau: the smallest batch from which on speculation is faster than plain decoding, at the 1k context of
    ELMoE-3D's Table 3; one more than the largest of `BATCHES` if there is none."""
    tau = BATCHES.stop
    for batch in reversed(BATCHES):
        plain, *drafting = step_options.price(batch_plan(batch), depths=(PLAIN, *depths))
        if max(option.tokens_per_s for option in drafting) <= plain.tokens_per_s:
            return tau
        tau = batch
    return tau
