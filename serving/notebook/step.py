"""One step explained from Python: its operators as typed rows and as columns."""

from typing import NamedTuple

from serving.notebook.columns import Columns, columns_of
from serving.notebook.comparison import MODEL
from serving.notebook.whole import check_names, whole
from serving.reports.explanation import CALIBRATED, Drafts, Operator, explained
from serving.scenario.fleet import NO_DRAFT
from serving.scenario.scenario import Scenario


class StepResult(NamedTuple):
    """A decode step: its seconds and joules, the tokens that it gives, what it assumes that nobody has measured (""),
    its operators, of each stage one pass, and its `caveats` in sentences: on HB's bound, on what lies beyond what the
    paper published, and on what is assumed."""

    latency_s: float
    energy_j: float
    tokens: float
    unmeasured: str
    rows: list[Operator]
    caveats: list[str]

    @property
    def columns(self) -> Columns:
        """Return the operators by the fields of `Operator`."""
        return columns_of(row._asdict() for row in self.rows)


def explain(
    hardware: str,
    model: str = MODEL,
    batch: int = 1,
    context: int = 1024,
    draft: str = NO_DRAFT,
    law: str = Scenario().law,
) -> StepResult:
    """Return one decode step of `batch` sequences with `context` tokens each on a piece of hardware, by the system that
    its file names; `draft`: a scheme, or "auto" for that of its paper.

    Raise UsageError or DeviceError for what can't be.
    """
    check_names(hardware=hardware, model=model, draft=draft, law=law)
    batch, context = whole("batch", batch), whole("context", context)
    # What a server refuses means nothing here either.
    (device,) = Scenario(hardware=hardware, model=model, draft=draft, law=law).members
    drafts = Drafts(device.draft or None, CALIBRATED, "published")
    found = explained((device.system, hardware, model, law), drafts, batch, context)
    return StepResult(found.latency_s, found.energy_j, found.tokens, found.device.unmeasured, found.rows, found.caveats)
