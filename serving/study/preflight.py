"""Preflight of a study: what no run could do is refused before the first one, in the server's words.

A value of an axis, or a variant, is refused if nothing can be run with it, whatever the other axes say: its devices
can't be, of its workload's first requests each is one that a server with those devices would never take on, or its
workload ends before any request is judged. What goes wrong in some combinations only, each point tells for itself.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from device_model.specs.spec import DeviceError
from serving.admission.rules import AdmissionRules
from serving.device.fleet_limits import check_faults, context_held, load_fleet
from serving.scenario.scenario import Scenario
from serving.security.api_keys import api_keys
from serving.simulation.recorded_routes import tape_of
from serving.simulation.virtual_admission import VirtualAdmission
from serving.study.axes import Settings, combinations
from serving.study.point import VARIANT, Point
from serving.study.point_factory import point_of
from serving.study.study import Study
from serving.toml_table import TomlTable
from serving.types import Request
from serving.usage_error import UsageError
from serving.workload.source import Source
from serving.workload.virtual import request_of

SCENARIO, WORKLOAD, JUDGE = "scenario", "workload", "judge"
# Of a workload, by which it is judged.
FIRST_REQUESTS = 100
# Places that are tried for one that can be run with a value, and fleets that are loaded in all, 3 to 15 ms each.
MOST_PLACES, MOST_FLEETS = 50, 200


class Obstacle(NamedTuple):
    """What stands in the way of a run: a key of the study's file, and a sentence."""

    key: str
    sentence: str


class Preflight:
    """Looks, for each value that a study varies, for a run that can be made with it."""

    def __init__(self, study: Study) -> None:
        self._study = study
        self._contexts: dict[str, int | Obstacle] = {}
        self._requests: dict[str, list[Request] | Obstacle] = {}

    def check(self, table: TomlTable) -> None:
        """Raise `StudyError` for the first value with which nothing can be run; `table` is the whole file."""
        common = self._obstacle({})
        if common and not self._study.axes and not self._study.variants:
            raise table.error(common.key, common.sentence)
        values = [(("axes", *name.split(".")), name, each) for name, of in self._study.axes.items() for each in of]
        for place, name, value in [*((("variants", each), VARIANT, each) for each in self._study.variants), *values]:
            if found := self._obstacle_of(name, value):
                if found == common:
                    raise table.error(found.key, found.sentence)
                *tables, last = place
                for each in tables:
                    table = table.below(each, {})
                has = "" if name == VARIANT else f"has {value!r}: it "
                raise table.error(last, has + found.sentence)

    def _obstacle_of(self, name: str, value: Any) -> Obstacle | None:
        """Return the first obstacle to a value if there is one in each of its places, else None."""
        first: Obstacle | None = None
        for tried, settings in enumerate(_places(self._study, name, value)):
            found = self._obstacle(settings) if tried < MOST_PLACES else None
            if found is None:
                return None
            first = first or found
        return first

    def _obstacle(self, settings: Settings) -> Obstacle | None:
        point = point_of(self._study, settings, None)
        context = self._context(point)
        if isinstance(context, Obstacle):
            return context
        requests = self._first_requests(point)
        if isinstance(requests, Obstacle):
            return requests
        refused = [refusal for each in requests if (refusal := _refusal(point.scenario, context, each))]
        if not requests or len(refused) < len(requests):
            return _nobody_judged(point)
        return Obstacle(WORKLOAD, f"has no request that could ever be served: {refused[0]}")

    def _context(self, point: Point) -> int | Obstacle:
        """Return the tokens that a point's devices hold of a request; more than any, if too many were loaded."""
        key = repr(point.scenario_keys)
        if key not in self._contexts:
            if len(self._contexts) >= MOST_FLEETS:
                return _contradiction(point) or Scenario().max_model_len
            self._contexts[key] = _context_of(point)
        return self._contexts[key]

    def _first_requests(self, point: Point) -> list[Request] | Obstacle:
        key = repr((point.workload.values, point.scenario_keys.get("slo_classes")))
        if key not in self._requests:
            self._requests[key] = _requests_of(point)
        return self._requests[key]


def _places(study: Study, name: str, value: Any) -> Iterator[Settings]:
    """Yield all settings of a study in which `name` has this value."""
    names = [value] if name == VARIANT else list(study.variants)
    axes = study.axes | ({name: [value]} if name in study.axes else {})
    for variant in [{VARIANT: each} for each in names] or [{}]:
        for place in combinations(axes):
            yield variant | place


def _contradiction(point: Point) -> Obstacle | None:
    """Return the obstacle that a scenario's keys contradict each other; None if they don't."""
    try:
        _ = point.scenario
    except (UsageError, DeviceError) as error:
        return Obstacle(SCENARIO, f"cannot be run: {error}")
    return None


def _context_of(point: Point) -> int | Obstacle:
    try:
        api_keys(point.scenario)
        fleet = load_fleet(point.scenario)
        context = context_held(point.scenario, fleet)
        check_faults(point.scenario, [spec for spec, _ in fleet], context)
        if any(spec.trace for spec, _ in fleet):
            tape_of(point.scenario.token_model)
        return context
    except (UsageError, DeviceError) as error:
        return Obstacle(SCENARIO, f"cannot be run: {error}")


def _requests_of(point: Point) -> list[Request] | Obstacle:
    """Return a workload's first requests, of those that wait for no other."""
    try:
        source = Source(point.workload_made())
        return [request_of(ask, point.scenario.slo, 0, source.seed) for ask in islice(source, FIRST_REQUESTS)]
    except UsageError as error:
        return Obstacle(WORKLOAD, f"cannot be run: {error}")


def _nobody_judged(point: Point) -> Obstacle | None:
    """Return the obstacle that a workload is over before the window of those that are judged begins; None if not."""
    duration_s = point.workload_made().duration_s
    if duration_s is None or point.from_s < duration_s:
        return None
    ends = f"the workload ends at {duration_s:g} s (`duration_s`)"
    return Obstacle(JUDGE, f"leaves no request to judge: `from_s` is {point.from_s:g}, and {ends}.")


def _refusal(scenario: Scenario, context: int, request: Request) -> str:
    """Return why a server that has nothing else to do would not take a request on; "" if it would."""
    admission = VirtualAdmission(AdmissionRules.of(scenario, context, False))
    refusal = admission.refusal(request, request.arrival_s)
    return refusal.sentence if refusal and not refusal.for_now else ""
