"""One device's queue of work where no prompt is computed as long as anything decodes: requests take turns."""

from collections.abc import Iterable
from dataclasses import dataclass

from serving.admission.device_queue import PLAIN, USUAL_CONTEXT, DeviceQueue
from serving.types import StepRecord


@dataclass
class TurnQueue(DeviceQueue):
    """A queue whose requests come in once all of the turn before have ended, as many as there are places.

    `decoded`: the present turn decodes, and nobody comes in. A forecast looks through all that wait.
    """

    apart: bool = True
    decoded: bool = False

    @property
    def admits(self) -> bool:
        return not (self.decoded and self.end_steps)

    def learn(self, record: StepRecord) -> None:
        super().learn(record)
        self.decoded = record.phase == "decode" and bool(self.end_steps)

    def _after_s(self, ahead: int, prompt_tokens: int) -> float:
        running = [max(0.0, end - self.steps) for end in self.end_steps]
        seconds, places = 0.0, self._places(prompt_tokens)
        if not self.admits:
            seconds, running = self._turn_s(running), []
        room = max(1, places - len(running))
        if self.waiting < room:
            return seconds + self._chunks_s(ahead + prompt_tokens)
        lengths, each = self._lengths(), ahead / self.waiting
        while len(lengths) >= room:
            seconds += self._chunks_s(each * room) + self._turn_s(running + lengths[:room])
            lengths, running, room = lengths[room:], [], places
        return seconds + self._chunks_s(each * len(lengths) + prompt_tokens)

    def _places(self, prompt_tokens: int) -> int:
        """Return how many come in at a time: who has a place, and room for its prompt."""
        # An empty prompt is forecast, too, before vLLM refuses it.
        mean = max(1.0, (self.prompts + prompt_tokens) / (self.waiting + 1))
        return max(1, min(self.slots, int(self.kv_tokens / mean)))

    def _lengths(self) -> list[float]:
        """Return the steps that those who wait are expected to take, in order."""
        waiting = (request for id, request in self.requests.items() if id not in self.decoding)
        return [self._length(request) for request in waiting]

    def _turn_s(self, lengths: Iterable[float]) -> float:
        """Return the seconds until the last of some that decode has ended, fewer with each end."""
        last, ends = 0.0, sorted(lengths)
        seconds, context = 0.0, self._mean_context() if self.end_steps else USUAL_CONTEXT
        for ended, end in enumerate(ends):
            if end > last:
                seconds += (end - last) * self.pace.decode_s(len(ends) - ended, context)
                last = end
        return self.slowdown[PLAIN] * seconds / self.tokens_per_step
