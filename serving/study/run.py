"""Runs one scenario under one workload in virtual time, and returns figures and tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING

import msgspec

from serving.scenario.listen_options import KEYS
from serving.scenario.scenario import Scenario
from serving.security.key_names import key_places
from serving.simulation.play import play
from serving.study.measures.percentiles import Percentile
from serving.study.measures.targets import Targets
from serving.study.recorder import Recorder
from serving.study.summary import Row, summary
from serving.study.tables import table
from serving.types import NEVER
from serving.workload import Workload

if TYPE_CHECKING:
    import pandas as pd

OWN = Targets(own=True)


@dataclass(frozen=True)
class Run:
    """The results of a run: `summary` has its figures (`serving.study.summary.COLUMNS`), `requests_file` one row a
    request as Parquet."""

    summary: Row
    requests_file: bytes
    bins: list[Row]

    @cached_property
    def requests(self) -> "pd.DataFrame":
        """Return one row a request, by the ends of requests on each device."""
        frame: pd.DataFrame = table(self.requests_file).to_pandas()
        return frame

    @cached_property
    def timeline(self) -> "pd.DataFrame":
        """Return one row for each of up to 256 bins of time and device (`serving.study.timeline`)."""
        import pandas as pd

        return pd.DataFrame(self.bins)


def simulate(
    scenario: Scenario,
    workload: Workload,
    targets: Targets = OWN,
    *,
    from_s: float = 0.0,
    to_s: float = NEVER,
    percentiles: Sequence[Percentile] = (),
) -> Run:
    """Run a workload on a scenario in virtual time, to its end. Each request is judged by `targets` (as they stand: by
    what its SLO class promises), if it arrives from `from_s` to `to_s`. The summary has these `percentiles` too.

        run = simulate(Scenario(devices=2), load_workload(Path("examples/workloads/burst.toml")))
        run.summary["ttft_p99_s"], run.requests.head()

    Raise UsageError for a wrong scenario or workload, DeviceError for a device that can't be.
    """
    recorder = Recorder(targets, from_s, to_s, key_places([{name: getattr(scenario, name) for name in KEYS}]))
    began_s = perf_counter()
    play(workload, scenario, observer=recorder)
    wall_s = perf_counter() - began_s
    requests = recorder.requests.close()
    found = summary(recorder, requests, targets, percentiles) | {"wall_s": wall_s}
    return Run(found, requests, recorder.bins())


def pack(run: Run) -> bytes:
    """Encode a run, to send or keep it."""
    return msgspec.msgpack.encode((run.summary, run.requests_file, run.bins))


def unpack(packed: bytes) -> Run:
    """Unpack a run that was packed."""
    return Run(*msgspec.msgpack.decode(packed))
