"""Are drafts that the token model makes accepted as far as its text goes, and no further than the request?"""

import numpy as np

from device_model.step import DraftShape, StepPlan
from serving.device.drafts.executed_drafts import ExecutedDrafts
from serving.device.routed_pricing import TracedDevice
from serving.scenario.scenario import BUNDLED_MODEL
from serving.simulation.recorded_texts import recorded
from serving.types import Batch

TRACE = TracedDevice("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b", str(BUNDLED_MODEL), "elastic", "executed")
SEQUENCES = 4


def accepted(left: list[int]) -> list[int]:
    """Of sequences that may have so many tokens yet, in one step."""
    follows = recorded(TRACE)
    ids, ones, context = [str(i) for i in range(SEQUENCES)], [1] * SEQUENCES, [20] * SEQUENCES
    seeds = [1000 * i for i in range(SEQUENCES)]
    batch = Batch(ids, ones, context, [True] * SEQUENCES, 0.0, seeds=seeds, released=ones, remaining=left)
    drafts, plan = ExecutedDrafts(TRACE, follows.choices, follows.texts()), StepPlan(np.array(ones), np.array(context))
    found = drafts.draft(batch, plan, DraftShape(6, 4, 12), None).accepted
    assert found is not None
    return found


def test_near_its_end_a_sequence_has_no_more_accepted_than_what_is_left() -> None:
    free = accepted([50] * SEQUENCES)
    assert max(free) > 2
    left = [1, 2, 3, 50]
    assert accepted(left) == [min(more, each - 1) for more, each in zip(free, left, strict=True)]
