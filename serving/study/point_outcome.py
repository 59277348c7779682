"""Outcome of a point that was to be made: its run, or the sentence that says why there is none."""

from typing import NamedTuple

from device_model.specs.spec import DeviceError
from serving.study.point import Point
from serving.study.run import Run
from serving.usage_error import UsageError

SENTENCES = (DeviceError, UsageError)


class PointOutcome(NamedTuple):
    """A point that was made, or the reason why it was not."""

    point: Point
    run: Run | None
    error: str = ""


def outcome_of(point: Point) -> PointOutcome:
    """Make a point in this process. Whatever is wrong with it costs the others nothing."""
    try:
        return PointOutcome(point, point.run())
    except SENTENCES as error:
        return PointOutcome(point, None, str(error))
    except Exception as error:
        # A mistake of ours: of one point, and not of the others.
        return PointOutcome(point, None, f"{type(error).__name__}: {error}")
