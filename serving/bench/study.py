"""Benchmark of a study: how much faster it is on two cores than on one."""

import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

from serving.cluster.session.ray_session import ray_session
from serving.study.runner import FEW_REQUESTS, run_study
from serving.study.spec import load_study

STUDY = """
question = "sweep"
seeds = [{seeds}]
[workload]
requests = {requests}
arrivals = {{ kind = "poisson", rate_per_s = 8 }}
prompt = {{ kind = "uniform", min = 50, max = 500 }}
output = {{ kind = "exponential", mean = 150 }}
"""
POINTS = 24


def sweep_pace(points: int = POINTS) -> dict[str, Any]:
    """Return the wall seconds of one sweep on one core and on two, with Ray up and its code run once before. Its points
    are too large to be made in this process, where they would be made one after the other."""
    with ray_session(2), tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sweep.toml"
        path.write_text(STUDY.format(seeds=", ".join(map(str, range(points))), requests=FEW_REQUESTS + 1))
        study = load_study(path)
        small = load_study(path, requests=5)
        run_study(small, Path(folder) / "warm-up", 2)
        took_s = {}
        for cores in (1, 2):
            began_s = perf_counter()
            run_study(study, Path(folder) / str(cores), cores)
            took_s[cores] = perf_counter() - began_s
    return {
        "points": points,
        "one_core_s": round(took_s[1], 2),
        "two_cores_s": round(took_s[2], 2),
        "speedup": round(took_s[1] / took_s[2], 2),
    }
