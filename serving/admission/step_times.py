"""Step times: a device's seconds per step, interpolated from a few probes of its model made beforehand."""

from bisect import bisect_right

from device_model.step import DeviceModel, StepPlan
from serving.policies.prompt_pace import Curve, doubling

# Contexts at which decoding is probed; between them its time is taken for linear.
CONTEXTS = (1, 256, 1024, 4096, 16384, 65536, 262144)

# Curves that are kept, each of a number of sequences.
MOST_KEPT = 1024


class Pace:
    """Seconds of a device's steps, by the prompt tokens and the decoding sequences that they compute."""

    def __init__(self, device: DeviceModel, max_num_seqs: int, max_num_batched_tokens: int) -> None:
        self.schedules_ahead = device.schedules_ahead
        prompts = doubling(max_num_batched_tokens)
        self.prefill_s = Curve(prompts, [_probe(device, (n, 0)) for n in prompts])
        self._batches = doubling(max_num_seqs)
        contexts = [c for c in CONTEXTS if c < device.max_context_tokens] or [1]
        contexts.append(max(device.max_context_tokens, contexts[-1] + 1))
        self._contexts = contexts
        self._decode = [[_probe(device, *[(1, c)] * b) for c in contexts] for b in self._batches]
        # Asked for at each step, mostly for as many sequences as at the one before.
        self._between: dict[float, Curve] = {}

    def decode_s(self, decoding: float, context: float) -> float:
        """Return the seconds of a step in which `decoding` sequences of `context` tokens on average decode one token
        each."""
        if decoding <= 0:
            return 0.0
        curve = self._between.get(decoding)
        if curve is None:
            if len(self._between) >= MOST_KEPT:
                self._between.clear()
            curve = self._between[decoding] = self._of(decoding)
        return curve(context)

    def _of(self, decoding: float) -> Curve:
        """Return the seconds by context of so many sequences: between those of the batches that were probed."""
        right = min(max(bisect_right(self._batches, decoding), 1), len(self._batches) - 1)
        low, high = self._batches[right - 1], self._batches[right]
        share = (decoding - low) / (high - low)
        pairs = zip(self._decode[right - 1], self._decode[right], strict=True)
        return Curve(self._contexts, [(1 - share) * fewer + share * more for fewer, more in pairs])

    def step_s(self, prompt_tokens: float, decoding: float, context: float) -> float:
        """Return the seconds of a step that also computes `prompt_tokens`: all its tokens go through the weights as a
        prompt's do, and the decoding ones read their contexts besides."""
        if prompt_tokens <= 0:
            return self.decode_s(decoding, context)
        return self.prefill_s(prompt_tokens + decoding) + self.reading_s(decoding, context)

    def reading_s(self, decoding: float, context: float) -> float:
        """Return the seconds that reading the contexts adds to a step."""
        return self.decode_s(decoding, context) - self.decode_s(decoding, 1)


def _probe(device: DeviceModel, *sequences: tuple[int, int]) -> float:
    return float(device.probe(StepPlan.of(*sequences)).latency_s[0])
