"""Row reads: the experts that a step reads, hot and cold, and the mean tRC of their rows."""

from typing import NamedTuple

from device_model.experts.hot_hits import ExpertTouch, touch_of
from device_model.mono3d.layout import Layout
from device_model.mono3d.row_times import RowTimes
from device_model.specs.spec import Model
from device_model.work import StepWork


class RowReads(NamedTuple):
    """What is touched, and the mean tRC in ns of the rows where hot and cold experts that are read lie."""

    touch: ExpertTouch
    hot_ns: float
    cold_ns: float


def expected_reads(model: Model, layout: Layout, times: RowTimes, work: StepWork, hit_rate: float | None) -> RowReads:
    """Return what a pass reads whose tokens are of the topic that is placed, by the published rate of hot hits, or by
    `hit_rate`. Either class is read evenly.
    """
    touch = touch_of(model, work, hit_rate)
    hot_ns = times.between(layout.shared_end, layout.hot_end)
    return RowReads(touch, float(hot_ns), float(times.between(layout.cold_start, layout.cold_end)))
