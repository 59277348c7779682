"""Expected device: sets the pace and the limits of a device in the forecast."""

from functools import lru_cache

from serving.admission.device_queue import NO_CHUNK, DeviceQueue
from serving.admission.forecast import Forecast
from serving.admission.step_times import Pace
from serving.admission.turn_queue import TurnQueue
from serving.device.device_spec import DeviceSpec
from serving.scenario.fleet import MOST_DEVICES
from serving.scheduler.config import DECODE_FIRST, MIXED, Limits


def expect(forecast: Forecast, index: int, spec: DeviceSpec, limits: Limits, prefill: str, prefill_chunk: int) -> None:
    """Add a serving device to the forecast, or set pace and KV capacity of one it knows. `prefill` and `prefill_chunk`
    are as of a scheduler."""
    seqs, tokens = limits.max_num_seqs, limits.max_num_batched_tokens
    pace = _pace_of(spec, seqs, tokens)
    if index in forecast.devices:
        forecast.set_pace(index, pace, limits.kv_capacity_tokens)
    else:
        kind = TurnQueue if prefill == DECODE_FIRST else DeviceQueue
        chunk, apart = prefill_chunk or NO_CHUNK, prefill != MIXED
        forecast.add(index, kind(pace, seqs, tokens, limits.kv_capacity_tokens, chunk, apart))


@lru_cache(2 * MOST_DEVICES)
def _pace_of(spec: DeviceSpec, max_num_seqs: int, max_num_batched_tokens: int) -> Pace:
    """Return the pace of all devices of a kind in a condition: cached, as it takes a hundred probes."""
    return Pace(spec.load().device, max_num_seqs, max_num_batched_tokens)
