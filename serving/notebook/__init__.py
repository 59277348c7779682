"""foreserve from Python and notebooks: each job in three lines, results for whatever takes a dict of columns.

    from serving.notebook import study
    found = study("examples/studies/choosing-tau.toml", requests=100)
    pandas.DataFrame(found.columns).plot(x="tau", y="tpot_mean_s")

    from serving.notebook import compare
    found = compare(["elmoe3d-8gb", "stratum-s"], "examples/workloads/burst.toml", requests=100)
    print(found.answer, found.columns["j_per_token"])

    from serving.notebook import explain
    found = explain("elmoe3d-8gb", batch=4)
    print(found.latency_s, found.energy_j, pandas.DataFrame(found.columns))

    from serving.notebook import state
    now = state("http://127.0.0.1:8000")
    print(now.status.emulated_s, now.columns["batch"])

A result has typed `rows`, and `columns`: a dict with a list for each name, all of one length. Nothing is printed and
nothing ends the process; what is wrong is raised as UsageError or DeviceError, in a sentence. Ctrl-C (a notebook's
"interrupt") ends a study or a comparison with what is done: `complete` is then false, and the same call goes on there.
"""

from serving.notebook.comparison import ComparisonResult, compare
from serving.notebook.server_state import ServerState, state
from serving.notebook.step import StepResult, explain
from serving.notebook.studies import StudyPoint, StudyResult, study

__all__ = [
    "ComparisonResult",
    "ServerState",
    "StepResult",
    "StudyPoint",
    "StudyResult",
    "compare",
    "explain",
    "state",
    "study",
]
