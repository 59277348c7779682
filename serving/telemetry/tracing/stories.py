"""Puts stories together from what is heard at the edge, and tells each one once it is complete."""

from collections import Counter
from collections.abc import Callable, Sequence

from serving.call import Call
from serving.clock import WallClock
from serving.cluster.observer import EdgeObserver
from serving.flight import Flight
from serving.telemetry.tracing.story import Course, Story
from serving.types import Chunk, Release

Tell = Callable[[Story], None]


class Stories(EdgeObserver):
    """`tell` hears of each call that asked for text, and of requests without a call, when they are over."""

    def __init__(self, clock: WallClock, tell: Sequence[Tell]) -> None:
        self._clock = clock
        self._tell = tell
        self._stories: dict[int, Story] = {}
        self._courses: dict[str, tuple[Course, Story]] = {}
        # By device, the requests that it has begun.
        self._inside: dict[int, dict[str, Course]] = {}

    def on_begin(self, flight: Flight) -> None:
        story, course = self._story(flight.call), Course(flight)
        story.courses.append(course)
        self._courses[flight.request.id] = course, story

    def on_release(self, release: Release, news: list[tuple[Flight, Chunk]]) -> None:
        device, record = release.device, release.record
        got = Counter(flight.request.id for flight, _ in news)
        inside = self._inside.setdefault(device, {})
        for id in release.started:
            if found := self._courses.get(id):
                found[0].computing = True
                inside[id] = found[0]
        if record is None:
            for id, tokens in got.items():
                if found := self._courses.get(id):
                    found[0].late(tokens)
            return
        for id, course in inside.items():
            tokens = got.get(id, 0)
            if tokens or record.underruns or course.computing:
                course.step(record, tokens)

    def on_move(self, flight: Flight) -> None:
        if found := self._courses.get(flight.request.id):
            self._leave(flight.request.id)
            found[0].note(self._clock.now(), "moved", **{"foreserve.device": flight.device})

    def on_restart(self, actor: str) -> None:
        for course, _ in self._courses.values():
            if actor in ("token source", f"device {course.flight.device}"):
                course.note(self._clock.now(), "restarted", **{"foreserve.actor": actor})

    def on_fault(self, device: int, kind: str, begins: bool) -> None:
        for course, _ in self._courses.values():
            if course.flight.device == device:
                course.note(self._clock.now(), "fault begins" if begins else "fault ends", **{"foreserve.fault": kind})

    def on_finish(self, flight: Flight) -> None:
        if found := self._courses.pop(flight.request.id, None):
            self._leave(flight.request.id)
            course, story = found
            course.ended_s = flight.last_s if not course.failed else self._clock.now()
            if flight.call is None:
                story.ended_s = course.ended_s
            self._end(story)

    def on_answer(self, call: Call) -> None:
        if id(call) in self._stories or call.refusal is not None or (refused(call) and asks_for_text(call.route)):
            story = self._story(call)
            story.ended_s = self._clock.now()
            self._end(story)

    def _story(self, call: Call | None) -> Story:
        return Story(None) if call is None else self._stories.setdefault(id(call), Story(call))

    def _leave(self, id: str) -> None:
        for courses in self._inside.values():
            courses.pop(id, None)

    def _end(self, story: Story) -> None:
        if story.complete:
            self._stories.pop(id(story.call), None)
            for tell in self._tell:
                tell(story)


def refused(call: Call) -> bool:
    """Tell whether a call was answered with an error: HTTP's number, or gRPC's name, says so."""
    return call.status[:1] > "3"


def asks_for_text(route: str) -> bool:
    """Tell whether a call of this path, or gRPC method, asks for text to be generated."""
    return route.endswith(("/completions", "Completion", "/responses", "/messages", "/Generate"))
