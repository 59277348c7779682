"""Caveats of the device model travel with whatever was run on it, and only where they hold."""

import dataclasses

import pytest

from serving.reports.policy_comparison import mixed, run
from serving.scenario.scenario import Scenario
from serving.simulation.model_caveats import RUNS, ModelShares, model_caveats, shares_of
from tests.serving.telemetry.metrics.samples import record

SMALL = Scenario(hardware="elmoe3d-4gb", mode="fixed-ar", max_num_seqs=64)
NONE = ModelShares(0.0, 0.0)


def of_run(scenario: Scenario) -> ModelShares:
    return shares_of(run(scenario, mixed(60, 1, rate_per_s=float("inf")))[1])


def test_shares_are_of_all_reads_and_of_all_steps() -> None:
    records = [record(), record(hits_beyond_hb=5.0, unpublished=1, steps=1), record(expert_lookups=30.0)]
    assert shares_of(records) == ModelShares(pytest.approx(0.1), pytest.approx(1 / 3))
    assert shares_of([]) == NONE


def test_a_run_that_goes_beyond_the_paper_says_so() -> None:
    *_, sentence = model_caveats(SMALL, [of_run(SMALL)])
    assert sentence.startswith("In this run steps are beyond the batches and sizes of HB")
    within = dataclasses.replace(SMALL, hardware="elmoe3d-8gb", max_num_seqs=2)
    assert model_caveats(within, [of_run(within)]) == []


def test_of_several_runs_it_says_in_how_many() -> None:
    shares = [NONE, ModelShares(0.2, 0.0), ModelShares(0.1, 0.9)]
    law, beyond = model_caveats(SMALL, shares)
    assert law.startswith("The answer may turn on the law: in 2 of 3 runs") and "up to 20% of expert reads" in law
    assert beyond.startswith("In 1 of 3 runs steps") and RUNS in beyond
    published = dataclasses.replace(SMALL, law="published")
    assert model_caveats(published, shares)[0].startswith("Under the law `published` HB serves more experts")


def test_locality_that_nobody_has_measured_is_said_to_be_that() -> None:
    assert "Locality of olmoe-1b-7b is uniform" in model_caveats(Scenario(model="olmoe-1b-7b"), [NONE])[0]
    assert model_caveats(Scenario(hardware="a6000", model="olmoe-1b-7b"), [NONE]) == []
