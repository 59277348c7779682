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
from device_model.validation.measured.fit import GpuFigures, Measured, emulated, figures_of, fit
from device_model.validation.measured.hardware_text import hardware_text
from device_model.validation.measured.measurement import Measurement, Passes
from tests.examples import examples

STEPS = [(batch, Passes(1, context)) for batch in (1, 4, 16, 64) for context in (256, 2000)]
PROMPTS = [(1, Passes(512, 0)), (1, Passes(2000, 0)), (8, Passes(2000, 0))]
# Prompts for which a slow host takes longer than the GPU, but for the longest; the shortest is within a CUDA graph.
HELD_UP = [(1, Passes(tokens, 0)) for tokens in (400, 600, 700, 800, 16000, 24000, 30000)]

hardware = st.sampled_from(["a6000", "rtx-4090", "l40s", "h100", "jetson-agx-orin"])
models = st.sampled_from(["olmoe-1b-7b", "gpt-oss-20b", "deepseek-v2-lite"])
figures = st.builds(GpuFigures, st.floats(0.3, 0.95), st.floats(0.1, 0.8), st.floats(2, 200), *[st.just(0.0)] * 3)


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


def fitted(setup, measurements):
    return fit(Measured(setup, measurements))


def beside(setup, known):
    """Known figures, with what hardware says that a pass takes by itself: measurements of one model leave it alone."""
    shipped = figures_of(setup)
    return known._replace(pass_us=shipped.pass_us, eager_pass_us=shipped.eager_pass_us if known.eager_layer_us else 0.0)


@pytest.mark.slow
@examples(6)
@given(hardware, models, figures)
def test_a_known_gpu_is_fitted_back(name, model, known):
    setup = setup_of(name, model)
    known = beside(setup, known)
    found = fitted(setup, measured(setup, known, STEPS + PROMPTS))
    assert {*found.kept} == {"pass_us"} | (set() if name == "h100" else {"eager_layer_us", "eager_pass_us"})
    assert not found.figures.eager_layer_us and not found.figures.eager_pass_us
    bandwidth, compute, layer_us = found.figures[:3]
    assert (bandwidth, compute) == pytest.approx(known[:2], rel=0.02)
    assert layer_us == pytest.approx(known.layer_us, rel=0.02, abs=0.3)
    assert max(map(abs, found.errors[0])) < 0.01


@pytest.mark.parametrize("factor", [1.5, 2.0, 4.0])
@pytest.mark.parametrize("name", ["a6000", "h100"])
def test_a_host_that_holds_up_prompts_is_fitted_back(name, factor):
    setup, known = setup_of(name, "gpt-oss-20b"), GpuFigures(0.8, 0.4, 30.0)
    alone_s = measured(setup, known, HELD_UP[3:4])[0].seconds
    floor_us = factor * alone_s * 1e6 - figures_of(setup).eager_pass_us
    slow = beside(setup, known._replace(eager_layer_us=floor_us / setup.model.layers))
    found = fitted(setup, measured(setup, slow, STEPS + HELD_UP))
    assert found.figures == pytest.approx(slow, rel=0.02)
    assert {*found.kept} == {"pass_us", "eager_pass_us"} and found.figures.eager_pass_us == slow.eager_pass_us


def test_a_floor_that_prompts_disprove_is_not_kept():
    setup = setup_of("h100")
    known = beside(setup, GpuFigures(0.8, 0.4, 12.0))
    assert figures_of(setup).eager_layer_us
    found = fitted(setup, measured(setup, known, STEPS + PROMPTS))
    assert found.figures.eager_layer_us == 0 and "eager_layer_us" not in found.kept


@pytest.mark.parametrize("seed", range(4))
def test_noise_of_the_shortest_prompt_is_no_floor(seed):
    setup, known = setup_of(), GpuFigures(0.7, 0.5, 40.0)
    decoding = [(batch, Passes(1, context)) for batch in (1, 4, 16, 64) for context in (128, 1024, 3000)]
    passes = decoding + [(1, Passes(tokens, 0)) for tokens in (128, 512, 1024, 2048, 4000)]
    noise = np.random.default_rng(seed).normal(0.0, 0.03, len(passes))
    # As noise would have it that looks most like a floor: the prompt that is to show it takes longer.
    noise[-3] = abs(noise[-3])
    found = fitted(setup, measured(setup, known, passes, noise.tolist()))
    assert found.figures.eager_layer_us == 0 and "eager_layer_us" in found.kept


@pytest.mark.slow
@pytest.mark.parametrize("name", ["l40s", "h100"])
@pytest.mark.parametrize("known", [GpuFigures(0.8, 0.4, 30.0, pass_us=600.0), GpuFigures(0.7, 0.5, 60.0)])
def test_what_a_pass_takes_by_itself_is_fitted_back_from_two_models(name, known):
    setups = [setup_of(name, model) for model in ("olmoe-1b-7b", "gpt-oss-20b")]
    found = fit(*(Measured(setup, measured(setup, known, STEPS + PROMPTS)) for setup in setups))
    assert found.figures[:2] == pytest.approx(known[:2], rel=0.02) and not found.figures.eager_layer_us
    assert (found.figures.layer_us, found.figures.pass_us) == pytest.approx((known.layer_us, known.pass_us), 0.02, 5)
    assert "pass_us" not in found.kept and [len(errors) for errors in found.errors] == [11, 11]


@pytest.mark.slow
def test_what_the_host_takes_for_a_pass_is_fitted_back_from_two_models():
    known = GpuFigures(0.8, 0.4, 30.0, 1000.0, 600.0, 8000.0)
    setups = [setup_of("h100", model) for model in ("olmoe-1b-7b", "gpt-oss-20b")]
    runs = [Measured(setup, measured(setup, known, STEPS + HELD_UP)) for setup in setups]
    found = fit(*runs)
    assert found.figures == pytest.approx(known, rel=0.02) and not found.kept
    alone = fit(runs[0])
    shipped = figures_of(setups[0])
    assert (alone.figures.pass_us, alone.figures.eager_pass_us) == (shipped.pass_us, shipped.eager_pass_us)
    assert alone.kept["pass_us"] == "only models of different numbers of layers tell it from layer_us"


def test_prompts_of_one_of_two_models_do_not_tell_what_the_host_takes_for_a_pass():
    known, setups = GpuFigures(0.8, 0.4, 30.0, 3000.0, 600.0), [setup_of(), setup_of(model="gpt-oss-20b")]
    passes = (STEPS, STEPS + HELD_UP)
    runs = [Measured(setup, measured(setup, known, each)) for setup, each in zip(setups, passes, strict=True)]
    found = fit(*runs)
    assert found.figures == pytest.approx(known, rel=0.02)
    assert found.kept == {"eager_pass_us": "only models of different numbers of layers tell it from eager_layer_us"}


def test_models_of_as_many_layers_are_refused():
    setups = [setup_of("4xh100", model) for model in ("qwen3-30b-a3b", "llama-4-scout")]
    with pytest.raises(DeviceError, match=r"qwen3-30b-a3b and llama-4-scout have 48 layers each, so that they do not"):
        fit(*(Measured(setup, measured(setup, GpuFigures(0.8, 0.4, 12.0), STEPS + PROMPTS)) for setup in setups))


def test_times_that_the_data_sheet_forbids_are_told_of():
    """Of a GPU whose memory has a third more bandwidth than its file says."""
    setup, known = setup_of(), GpuFigures(0.9, 0.6, 20.0)
    assert not fitted(setup, measured(setup, known, STEPS + PROMPTS)).at_peak
    faster = replace(setup, hardware=replace(setup.hardware, hbm_gb_per_s=1.33 * setup.hardware.hbm_gb_per_s))
    found = fitted(setup, measured(faster, known, STEPS + PROMPTS))
    assert found.at_peak == ("bandwidth_share",) and found.figures.layer_us == 0


@pytest.mark.slow
def test_what_no_figures_reproduce_does_not_bend_them():
    setup, known = setup_of(), GpuFigures(0.8, 0.4, 12.0)
    steps = measured(setup, known, STEPS + PROMPTS)
    odd = steps[-1]._replace(where="odd", seconds=2 * steps[-1].seconds)
    found = fitted(setup, [*steps, odd])
    assert found.figures[:3] == pytest.approx(known[:3], rel=0.02)
    assert found.errors[0][-1] == pytest.approx(-0.5, abs=0.01)


@pytest.mark.slow
@examples(3)
@given(figures, st.lists(st.floats(-0.05, 0.05), min_size=5, max_size=7))
def test_a_fit_is_no_worse_than_the_noise_of_what_it_was_fitted_to(known, noise):
    setup = setup_of()
    found = fitted(setup, measured(setup, known, STEPS + PROMPTS, noise))
    assert max(map(abs, found.errors[0])) < 0.12


def test_steps_of_decoding_say_nothing_of_compute_and_it_is_kept():
    setup, known = setup_of(), GpuFigures(0.8, 0.2, 12.0)
    found = fitted(setup, measured(setup, known, STEPS[:4]))
    assert [*found.kept] == ["compute_share", "eager_layer_us", "pass_us", "eager_pass_us"]
    assert found.figures.compute_share == figures_of(setup).compute_share == 0.5
    assert found.figures[:3:2] == pytest.approx(known[:3:2], rel=0.02)
    assert found == fitted(setup, measured(setup, known, STEPS[:4]))


@pytest.mark.parametrize("passes", [STEPS[:1], [(1, Passes(1, context)) for context in (100, 101, 102)]])
def test_measurements_that_are_too_few_or_too_alike_are_refused(passes):
    setup = setup_of()
    with pytest.raises(DeviceError, match=r"allowed are some at (several )?batches and contexts"):
        fitted(setup, measured(setup, GpuFigures(0.8, 0.4, 12.0), passes))


def test_what_is_measured_is_what_the_same_gpu_had_before_it_was():
    """Overheads by kernel and by layer are the same of the model that both are counted for."""
    setup = setup_of("a6000")
    before = gpu.Device(setup)
    again = emulated(setup, figures_of(setup))
    for one in (Measurement("", batch, (passes,), 1.0) for batch, passes in STEPS + PROMPTS):
        assert one.predicted_s(again) == pytest.approx(one.predicted_s(before))


def test_a_hardware_file_of_a_fit_keeps_the_data_sheet_and_says_where_the_rest_is_from(tmp_path):
    setup, known = setup_of(), GpuFigures(0.7, 0.4, 12.5)
    found = fitted(setup, measured(setup, known, STEPS[:4]))
    path = tmp_path / "mine.toml"
    path.write_text(hardware_text(FOLDER / "l40s.toml", found, "4 measurements of steps.csv"))
    mine, shipped = load_hardware(str(path)), load_hardware("l40s")
    assert (mine.hbm_gb_per_s, mine.tdp_w) == (shipped.hbm_gb_per_s, shipped.tdp_w)
    assert (mine.bandwidth_share, mine.layer_us) == found.figures[:3:2] and mine.is_measured
    sources = tomllib.loads(path.read_text())["sources"]
    assert sources["layer_us"] == "Fitted to 4 measurements of steps.csv"
    assert sources["compute_share"] == "Not measured, and kept as it was: nothing tells of it"
    again = tmp_path / "again.toml"
    # Of the name of a file that is no text, as Python has it.
    again.write_text(hardware_text(path, found, "others\udcff"), encoding="utf-8")
    assert load_hardware(str(again)) == mine


def test_a_figure_that_is_kept_keeps_its_source(tmp_path):
    setup = setup_of("h100")
    found = fitted(setup, measured(setup, beside(setup, GpuFigures(0.7, 0.4, 12.5)), STEPS[:4]))
    path = tmp_path / "mine.toml"
    path.write_text(hardware_text(FOLDER / "h100.toml", found, "4 measurements of steps.csv"))
    mine, shipped = (tomllib.loads(one.read_text())["sources"] for one in (path, FOLDER / "h100.toml"))
    assert (
        mine["compute_share"] == shipped["compute_share"]
        and mine["layer_us"] == "Fitted to 4 measurements of steps.csv"
    )
