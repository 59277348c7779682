"""Hardware side by side from Python: its figures as typed rows and as columns."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TypedDict, Unpack

from serving.notebook.columns import Columns, columns_of
from serving.notebook.studies import RESULTS
from serving.notebook.whole import check_names, whole, whole_or_none
from serving.study.measures.targets import Targets
from serving.study.runner import run_study
from serving.study.side_by_side.comparison import HardwareFigures
from serving.study.side_by_side.hardware_study import SideBySide, hardware_study
from serving.study.side_by_side.output import side_by_side
from serving.usage_error import UsageError

MODEL = "qwen3-30b-a3b"


class CompareOptions(TypedDict, total=False):
    """What else a comparison can be told: `devices` of each hardware, the `targets` that requests are to keep, `seeds`
    (its own), at most so many `requests` in each run, and the `law` of ELMoE-3D's hardware."""

    devices: int
    targets: Targets
    seeds: tuple[int, ...]
    requests: int
    law: str


class ComparisonResult(NamedTuple):
    """What a comparison found: the `answer` in sentences, and the figures of each piece of hardware. Not `complete`:
    Ctrl-C ended it, and this is the hardware whose runs were done by then."""

    answer: list[str]
    rows: list[HardwareFigures]
    complete: bool

    @property
    def columns(self) -> Columns:
        """Return the figures of all hardware, with joules per token by component (`compute_j_per_token`, ...)."""
        return columns_of(row.csv_row for row in self.rows)


def compare(
    hardware: Sequence[str],
    workload: Path | str,
    model: str = MODEL,
    out: Path | str = RESULTS / "compare",
    cores: int | None = None,
    **options: Unpack[CompareOptions],
) -> ComparisonResult:
    """Run a workload's file on two pieces of `hardware` or more that serve `model`; keep the runs in the folder `out`.

    Raise UsageError or DeviceError for hardware, a model, a workload or a number that can't be.
    """
    if isinstance(hardware, str) or not isinstance(hardware, Iterable):
        raise UsageError(f"`hardware` is {hardware!r}: it must be a list of two names or more.")
    hardware = tuple(hardware)
    for each in hardware:
        check_names(hardware=each)
    check_names(model=model)
    cores = whole_or_none("cores", cores)
    if "devices" in options:
        options["devices"] = whole("devices", options["devices"])
    if options.get("requests") is not None:
        options["requests"] = whole("requests", options["requests"])
    asked = SideBySide(tuple(hardware), Path(workload), model, **options)
    results = run_study(hardware_study(asked, Path(out)), out, cores, until_interrupted=True)
    found = side_by_side(results)
    return ComparisonResult(found.answer, found.hardware, results.complete)
