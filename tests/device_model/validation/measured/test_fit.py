"""Are measurements that a known GPU made fitted back to it, and those that say too little told?"""

import tomllib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.load import load_model
from device_model.specs.hardware_file import FOLDER, load_hardware
from device_model.specs.spec import DeviceError
from device_model.systems import gpu
from device_model.validation.measured.fit import GpuFigures, emulated, figures_of, fit
from device_model.validation.measured.hardware_text import hardware_text
from device_model.validation.measured.measurement import Measurement, Passes
from tests.examples import examples

STEPS = [(batch, Passes(1, context)) for batch in (1, 4, 16, 64) for context in (256, 2000)]
PROMPTS = [(1, Passes(512, 0)), (1, Passes(2000, 0)), (8, Passes(2000, 0))]

hardware = st.sampled_from(["a6000", "rtx-4090", "l40s", "h100", "jetson-agx-orin"])
models = st.sampled_from(["olmoe-1b-7b", "gpt-oss-20b", "deepseek-v2-lite"])
figures = st.builds(GpuFigures, st.floats(0.3, 0.95), st.floats(0.1, 0.8), st.floats(2, 200), st.just(0.0))


def setup_of(name="l40s", model="olmoe-1b-7b"):
    return gpu.Device.setup_of(model, load_hardware(name), load_model(model))


def measured(setup, known, passes, noise=()):
    """What the same GPU with known figures would take, each time off by a share of `noise`."""
    device, found = emulated(setup, known), []
    for index, (batch, one) in enumerate(passes):
        exact = Measurement(f"step {index}", batch, (one,), 1.0)
        share = 1 + (noise[index % len(noise)] if noise else 0.0)
        found.append(exact._replace(seconds=exact.predicted_s(device) * share))
    return found


@examples(6)
@given(hardware, models, figures)
def test_a_known_gpu_is_fitted_back(name, model, known):
    setup = setup_of(name, model)
    found = fit(setup, measured(setup, known, STEPS + PROMPTS))
    assert found.untold == (() if name == "h100" else ("eager_layer_us",)) and not found.figures.eager_layer_us
    bandwidth, compute, layer_us = found.figures[:3]
    assert (bandwidth, compute) == pytest.approx(known[:2], rel=0.02)
    assert layer_us == pytest.approx(known.layer_us, rel=0.02, abs=0.3)
    assert max(map(abs, found.errors)) < 0.01


@pytest.mark.parametrize("factor", [1.5, 2.0, 4.0])
@pytest.mark.parametrize("name", ["a6000", "h100"])
def test_a_host_that_holds_up_prompts_is_fitted_back(name, factor):
    """The host takes longer than the GPU for prompts of 600 to 800 tokens, and not for the longest."""
    setup, known = setup_of(name, "gpt-oss-20b"), GpuFigures(0.8, 0.4, 30.0)
    prompts = [(1, Passes(tokens, 0)) for tokens in (400, 600, 700, 800, 16000, 24000, 30000)]
    alone_s = measured(setup, known, prompts[3:4])[0].seconds
    slow = known._replace(eager_layer_us=factor * alone_s / setup.model.layers * 1e6)
    found = fit(setup, measured(setup, slow, STEPS + prompts))
    assert found.figures == pytest.approx(slow, rel=0.02)
    assert not found.untold


def test_a_floor_that_prompts_disprove_is_not_kept():
    setup, known = setup_of("h100"), GpuFigures(0.8, 0.4, 12.0)
    assert figures_of(setup).eager_layer_us
    found = fit(setup, measured(setup, known, STEPS + PROMPTS))
    assert found.figures.eager_layer_us == 0 and "eager_layer_us" not in found.untold


@pytest.mark.parametrize("seed", range(4))
def test_noise_of_the_shortest_prompt_is_no_floor(seed):
    setup, known = setup_of(), GpuFigures(0.7, 0.5, 40.0)
    decoding = [(batch, Passes(1, context)) for batch in (1, 4, 16, 64) for context in (128, 1024, 3000)]
    passes = decoding + [(1, Passes(tokens, 0)) for tokens in (128, 512, 1024, 2048, 4000)]
    noise = np.random.default_rng(seed).normal(0.0, 0.03, len(passes))
    # As noise would have it that looks most like a floor: the prompt that is to show it takes longer.
    noise[-3] = abs(noise[-3])
    found = fit(setup, measured(setup, known, passes, noise.tolist()))
    assert found.figures.eager_layer_us == 0 and "eager_layer_us" in found.untold


def test_times_that_the_data_sheet_forbids_are_told_of():
    """Of a GPU whose memory has a third more bandwidth than its file says."""
    setup, known = setup_of(), GpuFigures(0.9, 0.6, 20.0)
    assert not fit(setup, measured(setup, known, STEPS + PROMPTS)).at_peak
    faster = replace(setup, hardware=replace(setup.hardware, hbm_gb_per_s=1.33 * setup.hardware.hbm_gb_per_s))
    found = fit(setup, measured(faster, known, STEPS + PROMPTS))
    assert found.at_peak == ("bandwidth_share",) and found.figures.layer_us == 0


def test_what_no_figures_reproduce_does_not_bend_them():
    setup, known = setup_of(), GpuFigures(0.8, 0.4, 12.0)
    steps = measured(setup, known, STEPS + PROMPTS)
    odd = steps[-1]._replace(where="odd", seconds=2 * steps[-1].seconds)
    found = fit(setup, [*steps, odd])
    assert found.figures[:3] == pytest.approx(known[:3], rel=0.02)
    assert found.errors[-1] == pytest.approx(-0.5, abs=0.01)


@examples(3)
@given(figures, st.lists(st.floats(-0.05, 0.05), min_size=5, max_size=7))
def test_a_fit_is_no_worse_than_the_noise_of_what_it_was_fitted_to(known, noise):
    setup = setup_of()
    found = fit(setup, measured(setup, known, STEPS + PROMPTS, noise))
    assert max(map(abs, found.errors)) < 0.12


def test_steps_of_decoding_say_nothing_of_compute_and_it_is_kept():
    setup, known = setup_of(), GpuFigures(0.8, 0.2, 12.0)
    found = fit(setup, measured(setup, known, STEPS[:4]))
    assert found.untold == ("compute_share", "eager_layer_us")
    assert found.figures.compute_share == figures_of(setup).compute_share == 0.5
    assert found.figures[:3:2] == pytest.approx(known[:3:2], rel=0.02)
    assert found == fit(setup, measured(setup, known, STEPS[:4]))


@pytest.mark.parametrize("passes", [STEPS[:1], [(1, Passes(1, context)) for context in (100, 101, 102)]])
def test_measurements_that_are_too_few_or_too_alike_are_refused(passes):
    setup = setup_of()
    with pytest.raises(DeviceError, match=r"allowed are some at (several )?batches and contexts"):
        fit(setup, measured(setup, GpuFigures(0.8, 0.4, 12.0), passes))


def test_what_is_measured_is_what_the_same_gpu_had_before_it_was():
    """Overheads by kernel and by layer are the same of the model that both are counted for."""
    setup = setup_of("a6000")
    before = gpu.Device(setup)
    again = emulated(setup, figures_of(setup))
    for one in (Measurement("", batch, (passes,), 1.0) for batch, passes in STEPS + PROMPTS):
        assert one.predicted_s(again) == pytest.approx(one.predicted_s(before))


def test_a_hardware_file_of_a_fit_keeps_the_data_sheet_and_says_where_the_rest_is_from(tmp_path):
    setup, known = setup_of(), GpuFigures(0.7, 0.4, 12.5)
    found = fit(setup, measured(setup, known, STEPS[:4]))
    path = tmp_path / "mine.toml"
    path.write_text(hardware_text(FOLDER / "l40s.toml", found, "4 measurements of steps.csv"))
    mine, shipped = load_hardware(str(path)), load_hardware("l40s")
    assert (mine.hbm_gb_per_s, mine.tdp_w) == (shipped.hbm_gb_per_s, shipped.tdp_w)
    assert (mine.bandwidth_share, mine.layer_us) == found.figures[:3:2] and mine.is_measured
    sources = tomllib.loads(path.read_text())["sources"]
    assert sources["layer_us"] == "Fitted to 4 measurements of steps.csv"
    assert sources["compute_share"].startswith("Not measured, and kept as it was")
    again = tmp_path / "again.toml"
    # Of the name of a file that is no text, as Python has it.
    again.write_text(hardware_text(path, found, "others\udcff"), encoding="utf-8")
    assert load_hardware(str(again)) == mine
