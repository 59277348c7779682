"""Studies: capacity questions answered in virtual time, from the command line (`foreserve study`) or from Python.

    from pathlib import Path
    from serving.study import Scenario, load_study, load_workload, run_study, simulate

    run = simulate(Scenario(devices=2), load_workload(Path("examples/workloads/burst.toml")))
    run.summary, run.requests, run.timeline            # figures, and data frames

    results = run_study(load_study(Path("examples/studies/node-sizing.toml")), Path("results/node-sizing"))
    results.answers, results.points, results.requests  # data frames

`run` carries out one scenario under one workload, which a `recorder` hears; `spec` and `axes` read a study's file,
whose `questions` ask for `points`; `runner` has `workers` make them on all cores and a `store` keep them.
"""

from serving.scenario.scenario import Scenario
from serving.scenario.scenario_file import load_scenario
from serving.study.measures.targets import PRESETS, Targets
from serving.study.results import Results
from serving.study.run import Run, simulate
from serving.study.runner import StudyProgress, run_study
from serving.study.spec import StudyError, load_study
from serving.study.study import Study
from serving.workload import Workload, load_workload

__all__ = [
    "PRESETS",
    "Results",
    "Run",
    "Scenario",
    "Study",
    "StudyError",
    "StudyProgress",
    "Targets",
    "Workload",
    "load_scenario",
    "load_study",
    "load_workload",
    "run_study",
    "simulate",
]
