"""Every figure of Stratum that its paper prints, with what is predicted of it."""

from collections.abc import Callable, Sequence

from device_model.validation.figures import PaperFigure
from device_model.validation.stratum import energy, requests, throughput
from device_model.validation.stratum.chip import CHIP
from device_model.validation.stratum.orders import ORDERS
from device_model.validation.stratum.results import Result, read_results
from device_model.validation.stratum.setting import Setting

Prediction = Callable[[Setting, str], float]

ENERGY = "energy efficiency over GPU, best case"
FITTED: dict[str, Prediction] = {
    "decode throughput over GPU": throughput.mean_over_gpu,
    "decode throughput, tiering over no tiering": throughput.mean_over_flat,
    "throughput, all hot hits over uniform usage, shortest length": throughput.shortest_hot_hits,
    "throughput, all hot hits over uniform usage, longest length": throughput.longest_hot_hits,
    "throughput over GPU, smallest over batches and lengths": throughput.least_over_gpu,
    "throughput over GPU, largest": throughput.most_over_gpu,
}
"""The metrics that the three constants were fitted to (`fit`)."""
UNFITTED: dict[str, Prediction] = {
    "request latency": requests.request_latency,
    "throughput per area, 1024 over 256 layers": throughput.over_256_layers,
    "throughput per area, 1024 over 64 layers": throughput.over_64_layers,
    "decode throughput, tiering over no tiering, 512 layers": throughput.segments_over_flat,
    ENERGY: energy.best_over_gpu,
    "swap time": requests.swap_ms,
    "swap energy": requests.swap_mj,
}
SWAP_SHARE = "swap time share"
SWAPS, SWAP_TIME = "expert swaps per second", "swap time"


def figures(setting: Setting | None = None) -> list[PaperFigure]:
    """Return all figures, in the order of the file; predicted with the shipped constants, or in another setting."""
    setting = setting or Setting()
    results = read_results()
    return [_figure(result, _predicted(result, setting, results), _how(result, setting)) for result in results]


def _how(result: Result, setting: Setting) -> str:
    """Return what is to be said of a figure: what its number means, or how it comes about."""
    return energy.arithmetic(setting, result.model) if result.metric == ENERGY else result.note


def _figure(result: Result, predicted: float | None, how: str) -> PaperFigure:
    """In the unit of the publication."""
    where = f"Stratum, {result.where}" + (f": {how}" if how else "")
    unit = "" if result.unit in ("", "x", "share of cases") else f" ({result.unit})"
    fitted = result.metric in FITTED
    name = result.metric + unit
    return PaperFigure(name, result.configuration, result.model, result.value, predicted, result.role, fitted, where)


def _predicted(result: Result, setting: Setting, results: Sequence[Result]) -> float | None:
    if result.metric in CHIP:
        return CHIP[result.metric]()
    if result.metric in ORDERS:
        return ORDERS[result.metric](setting)
    if result.metric == SWAP_SHARE:
        return _swap_share(result, results)
    predict = (FITTED | UNFITTED).get(result.metric)
    return predict(setting, result.model) if predict else None


def _swap_share(result: Result, results: Sequence[Result]) -> float:
    """In percent: one swap a request, by the swaps per second and the milliseconds of each that Table 4 prints."""
    printed = {other.metric: other.value for other in results if other.model == result.model}
    return 100 * (printed[SWAPS] or 0.0) * (printed[SWAP_TIME] or 0.0) * requests.MILLI
