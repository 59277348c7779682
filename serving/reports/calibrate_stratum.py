"""`foreserve calibrate --system stratum`: fits the three constants of Stratum and its baselines, and says how well."""

from rich.console import Console

from device_model.validation.stratum.fit import fit, fitted_results, left_out
from device_model.validation.stratum.predictions import FITTED
from device_model.validation.stratum.setting import Constants, Setting
from serving.presentation.table import Table

KEPT_IN = {
    "kv_share_of_free_rows": "stratum.toml",
    "bandwidth_share": "vllm-0.8.1.toml",
    "kernel_us": "vllm-0.8.1.toml",
}
"""The file of specs/calibration that has each constant."""


def run_stratum(console: Console, progress: Console) -> None:
    """Fit; print the constants beside those that ship, and the error of each figure, fitted and left out."""
    results = fitted_results()
    progress.print(f"Fitting to {len(results)} figures, and to all but each of them ...")
    found, shipped = fit(results), Setting().constants
    setting = Setting(found)
    console.print(_constants(found, shipped))
    rows = []
    for result, apart in zip(results, left_out(results), strict=True):
        predicted = FITTED[result.metric](setting, result.model)
        published = result.value or 1.0
        error = _percent(predicted / published - 1)
        rows.append((result.metric, result.model, f"{published:g}", f"{predicted:.3g}", error, _percent(apart)))
    heads = ("figure", "model", "published", "fitted", "error", "error, left out")
    console.print(Table(heads, rows, words=(0, 1)))


def _constants(found: Constants, shipped: Constants) -> Table:
    rows = [
        (name, f"{value:g}", f"{ships:g}", KEPT_IN[name])
        for name, value, ships in zip(Constants._fields, found, shipped, strict=True)
    ]
    return Table(("constant", "fitted", "ships", "in specs/calibration"), rows, words=(0, 3))


def _percent(error: float) -> str:
    return f"{100 * error:+.1f} %"
