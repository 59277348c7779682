"""What the forecast is told of a device: how fast it is, and how much it takes on."""

from functools import cache

from serving.admission.forecast import DeviceQueue, Forecast
from serving.admission.step_times import Pace
from serving.device.device_spec import DeviceSpec
from serving.scheduler.config import Limits


def expect(forecast: Forecast, index: int, spec: DeviceSpec, limits: Limits) -> None:
    """A device serves, at the pace that it now has."""
    seqs, tokens = limits.max_num_seqs, limits.max_num_batched_tokens
    pace = _pace_of(spec, seqs, tokens)
    if index in forecast.devices:
        forecast.set_pace(index, pace)
    else:
        forecast.add(index, DeviceQueue(pace, seqs, tokens, limits.kv_capacity_tokens))


@cache
def _pace_of(spec: DeviceSpec, max_num_seqs: int, max_num_batched_tokens: int) -> Pace:
    """The same for all devices of a kind, and it takes a hundred probes."""
    return Pace(spec.load().device, max_num_seqs, max_num_batched_tokens)
