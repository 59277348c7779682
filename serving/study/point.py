"""A point: one run of a study, with all that decides what comes of it, and a key to know it by."""

import hashlib
from dataclasses import dataclass, replace
from functools import cache, cached_property
from math import isnan
from pathlib import Path
from typing import Any

import msgspec

from device_model.specs.file_state import FileState
from device_model.specs.hardware_file import is_file
from device_model.specs.spec import DeviceError
from serving.device.device_spec import USAGE
from serving.policies.step_options import EXECUTED
from serving.presentation.digits import digits
from serving.scenario.scenario import BUNDLED_MODEL, Scenario, token_model_of
from serving.scenario.scenario_error import ScenarioError
from serving.scenario.scenario_file import changed
from serving.security.api_keys import api_keys, digest
from serving.simulation.recorded_routes import FILE as ROUTES
from serving.study.axes import Settings
from serving.study.code_digest import code_digest
from serving.study.measures.cost import Cost
from serving.study.measures.percentiles import Percentile
from serving.study.measures.targets import Targets
from serving.study.run import Run, simulate
from serving.study.summary import Row
from serving.types import NEVER
from serving.workload.arrivals import ClosedLoop
from serving.workload.spec import Workload, workload_of
from serving.workload.table import WorkloadError, WorkloadTable

VARIANT, SEED = "variant", "seed"
NOBODY = "No request arrives"
# Keys of a workload that name another file.
FILES = ("file", "tokenizer")
# Beside a token model's weights, and all of it that virtual time reads, for it makes no text; but drafts that are
# executed are of the weights.
OF_TOKEN_MODEL = (USAGE, ROUTES, "config.json")
WEIGHTS = "*.safetensors"


@dataclass(frozen=True)
class Point:
    """`names` tell it from the study's others: its variant, its place on each axis, its load, its seed. The
    `scenario_keys` are those that the study sets. So many of the requests are to keep their targets (`asked_share`; 0:
    nothing is asked), which says how few of them are few."""

    names: Settings
    scenario_keys: Settings
    workload: WorkloadTable
    load: float
    seed: int | None
    requests: int | None
    targets: Targets
    from_s: float
    to_s: float
    percentiles: tuple[Percentile, ...] = ()
    cost: Cost | None = None
    asked_share: float = 0.0

    @cached_property
    def scenario(self) -> Scenario:
        """The scenario, parsed. Raise `ScenarioError` if its keys contradict each other."""
        return Scenario(**self.scenario_keys)

    @cached_property
    def key(self) -> str:
        """The key of the point's run: equal for equal runs by equal code, in any study."""
        return self.key_of(code_digest())

    def key_of(self, code: str) -> str:
        """Return the key that the point's run has if it is made by code of that digest."""
        told = changed(self.scenario_keys), self.workload.values
        decides = msgspec.json.encode((*told, self.load, self.seed, self.requests, self._judged), order="deterministic")
        return hashlib.sha256(decides + _files(self) + _api_keys(self) + code.encode()).hexdigest()[:16]

    @property
    def _judged(self) -> list[str]:
        return [repr(each) for each in (self.targets, self.from_s, self.to_s, self.percentiles)]

    def __str__(self) -> str:
        return ", ".join(f"{name}={shown(value)}" for name, value in self.names.items()) or "the only point"

    def run(self) -> Run:
        """Carry it out. Raises what `simulate` raises."""
        window = {"from_s": self.from_s, "to_s": self.to_s}
        run = simulate(self.scenario, self.workload_made(), self.targets, **window, percentiles=self.percentiles)
        if not run.summary["judged"]:
            raise WorkloadError(self._none_judged(run.requests.arrival_s.max()))
        return run

    def _none_judged(self, last_s: float) -> str:
        """Return the sentence that nobody came in the window of those that are judged, and what to do about it; of a
        run without a request `last_s` is no number."""
        if isnan(last_s):
            return f"{NOBODY} before the workload ends: let it last longer (`duration_s`), or more come."
        window = f"from {self.from_s:g} s (`judge.from_s`)" + (f" to {self.to_s:g} s" if self.to_s < NEVER else "")
        longer = self.requests is not None and last_s < self.from_s
        do = f" It is cut to {self.requests} requests: give more (--requests), or lower `from_s`." if longer else ""
        return f"{NOBODY} in the window of `judge`, {window}; the last one arrives at {last_s:g} s.{do}"

    def row(self, run: Run) -> Row:
        """Return the figures of its run, with those of its cost, which are no part of the run."""
        costs = self.cost.figures(run.summary, self.scenario.members, self.users) if self.cost else {}
        return run.summary | costs

    @property
    def users(self) -> int | None:
        """The users of a closed loop at its load; None for an open loop."""
        arrivals = self.workload_made().arrivals
        return arrivals.users if isinstance(arrivals, ClosedLoop) else None

    def workload_made(self) -> Workload:
        """Return the workload of its tables, at its load. Raise `WorkloadError`."""
        workload = workload_of(self.workload)
        if self.requests is not None:
            workload = replace(workload, requests=min(self.requests, workload.requests or self.requests))
        if self.seed is not None:
            workload = replace(workload, seed=self.seed)
        if not workload.ends:
            raise WorkloadError(
                f"{self.workload.path}: the workload has neither `requests` nor `duration_s`: one says where it ends."
            )
        return workload.at_load(self.load)


def is_of_nobody(error: str) -> bool:
    """Tell whether a point failed because none of its requests is judged."""
    return error.startswith(NOBODY)


def shown(value: Any) -> str:
    """Return a setting's value for people."""
    if isinstance(value, float):
        return digits(value, 4)
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def _files(point: Point) -> bytes:
    """Return the state of the files, beside the code, that decide what comes of a point: those that its workload names,
    those of its token model, and those of its hardware where these are not among the code."""
    named = [value[key] for value in _tables(point.workload.values) for key in FILES if isinstance(value.get(key), str)]
    paths = [point.workload.path.parent / name for name in named]
    token_model = Path(token_model_of(point.scenario_keys.get("token_model", str(BUNDLED_MODEL))))
    paths += [token_model / name for name in OF_TOKEN_MODEL]
    paths += sorted(token_model.glob(WEIGHTS)) if point.scenario_keys.get("acceptance") == EXECUTED else []
    paths += _hardware_files(point)
    return b"".join(_hash(path, FileState.of(path)) for path in paths if path.is_file())


def _hardware_files(point: Point) -> list[Path]:
    """Return the files of a user's own hardware that a point names; none if its keys contradict each other, as it is
    then not run."""
    try:
        names = {member.hardware for member in point.scenario.members}
    except (ScenarioError, DeviceError):
        return []
    return [Path(name) for name in sorted(names) if is_file(name)]


def _api_keys(point: Point) -> bytes:
    """Return what tells the keys of clients, wherever they are said, from others; nothing if there are none, or none
    that can be read, as it is then not run."""
    try:
        keys = api_keys(point.scenario)
    except (ScenarioError, DeviceError):
        return b""
    return digest(",".join(keys)) if keys else b""


@cache
def _hash(path: Path, state: FileState | None) -> bytes:
    """Return the hash of a file in that state."""
    return hashlib.sha256(path.read_bytes()).digest()


def _tables(tree: dict[str, Any]) -> list[dict[str, Any]]:
    below = [each for value in tree.values() if isinstance(value, dict) for each in _tables(value)]
    return [tree, *below]
