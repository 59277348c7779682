"""Which mode a batch gets under each policy, and does it waver?"""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.load import load_device
from device_model.step import StepPlan
from serving.device.mode_choice import ModeChoice
from serving.policies.modes import ENERGY, MARGIN, POLICIES, SPEED, Modes
from serving.policies.regrets import DecodeBatch
from serving.policies.step_option import PLAIN, StepOption
from serving.policies.step_options import StepOptions
from serving.scenario.draft_depth import parse_depth
from serving.scenario.scenario import Scenario, ScenarioError
from serving.usage_error import UsageError

WAYS = {
    (hardware, model): StepOptions(load_device("elmoe3d", hardware, model, "elastic"))
    for hardware in ("elmoe3d-4gb", "elmoe3d-8gb")
    for model in ("qwen3-30b-a3b", "glm-4.7-flash")
}
QWEN, GLM = WAYS["elmoe3d-8gb", "qwen3-30b-a3b"], WAYS["elmoe3d-8gb", "glm-4.7-flash"]


def plan(batch: int, context: int = 1024, prompt: int = 0) -> StepPlan:
    return StepPlan.of(*[(1, context)] * batch, *([(prompt, 0)] if prompt else []))


def step(modes: Modes, step_options: StepOptions, of: StepPlan, at_s: float = 0.0) -> tuple[int, str]:
    """The depth of a step, and the reason for it."""
    decoding, ext = int((of.new_tokens == 1).sum()), step_options.device.ext_bytes_per_s
    batch = DecodeBatch(decoding, int(of.context.sum()), int(of.new_tokens.sum()) - decoding, at_s, ext)
    depths, verdict = modes.candidates(batch)
    option, reason = modes.choose(step_options.price(of, depths=depths), verdict)
    return option.depth, reason


class Clocked:
    """Modes of a device that works without a pause."""

    def __init__(self, modes: Modes, step_options: StepOptions) -> None:
        self.modes, self.step_options, self.at_s = modes, step_options, 0.0

    def after(self, seconds: float, of: StepPlan) -> str:
        """The mode after a batch has been so for that long, and the reason."""
        mode, until_s = "", self.at_s + seconds
        while self.at_s < until_s:
            depth, reason = step(self.modes, self.step_options, of, self.at_s)
            mode = f"{'sd' if depth else 'ar'}: {reason}"
            self.at_s += float(self.step_options.price(of, depths=(depth,))[0].costs.latency_s[0])
        return mode


def modes(name: str, step_options: StepOptions = GLM, tau: int = 0, depth: str = "", objective: str = SPEED) -> Modes:
    return ModeChoice(name, tau, parse_depth(depth), objective).modes(step_options, step_options)


def test_the_policies_are_the_files() -> None:
    assert POLICIES == ("cost", "fixed-ar", "fixed-sd", "tau")


def test_fixed_modes_are_what_they_say_and_a_prompt_alone_never_drafts() -> None:
    assert step(modes("fixed-ar"), GLM, plan(16)) == (PLAIN, "fixed")
    assert step(modes("fixed-sd"), GLM, plan(1)) == (GLM.calibrated, "fixed")
    assert step(modes("fixed-sd"), GLM, plan(0, prompt=64)) == (PLAIN, "nothing decodes")


def test_a_named_tau_is_kept_and_changes_the_mode_a_second_after_it_is_crossed() -> None:
    tau = Clocked(modes("tau", tau=8), GLM)
    assert tau.after(0.1, plan(7)) == "ar: below tau"
    assert tau.after(0.8, plan(8)) == "ar: at least tau, too briefly"
    assert tau.after(0.4, plan(8)) == "sd: at least tau"
    # The second change within a minute takes 2.7 times as long.
    assert tau.after(2.2, plan(7)) == "sd: below tau, too briefly"
    assert tau.after(0.6, plan(7)) == "ar: below tau"
    # However far speculation is ahead, or behind.
    assert step(modes("tau", tau=8), GLM, plan(8, 20_000)) == (GLM.calibrated, "at least tau")
    assert step(modes("tau", tau=8), GLM, plan(7)) == (PLAIN, "below tau")


@given(st.sampled_from(sorted(WAYS)), st.integers(1, 64), st.integers(0, 33_000))
def test_a_tau_of_the_device_models_own_begins_in_the_better_mode_at_any_context(
    named: tuple[str, str], batch: int, context: int
) -> None:
    step_options = WAYS[named]
    of = plan(batch, context)
    plain, drafting = (each.tokens_per_s for each in step_options.price(of, depths=(PLAIN, step_options.calibrated)))
    chosen = step(modes("tau", step_options), step_options, of)[0]
    better, worse = (drafting, plain) if chosen else (plain, drafting)
    assert better >= 0.97 * worse  # of a bucket of contexts the middle was asked about


def test_a_tau_of_the_device_models_own_follows_a_context_that_takes_the_pools_room() -> None:
    tau, short, long = Clocked(modes("tau", QWEN), QWEN), plan(16), plan(16, 8192)
    assert tau.after(0.1, short) == "sd: drafting is faster"
    assert tau.after(0.1, long) == "sd: drafting is slower, too briefly"
    assert tau.after(20.0, long) == "ar: drafting is slower"
    assert tau.after(60.0, short) == "sd: drafting is faster"


def test_a_device_that_was_idle_has_lost_nothing_meanwhile() -> None:
    tau = modes("tau", tau=8)
    assert [step(tau, GLM, plan(batch), at_s)[1] for batch, at_s in ((7, 0.0), (8, 0.1), (8, 900.0))] == [
        "below tau",
        "at least tau, too briefly",
        "at least tau, too briefly",
    ]


@pytest.mark.parametrize("named", [0, 2, 3])
def test_a_batch_that_wavers_about_tau_does_not_change_its_mode_each_time(named: int) -> None:
    """On GLM-4.7-Flash a batch of two is faster without drafts, and one of three with them."""
    tau, at_s, drafts = modes("tau", tau=named), 0.0, []
    for turn in range(2000):
        of = plan(2 + turn % 2 if named != 2 else 1 + turn % 2)
        depth, _ = step(tau, GLM, of, at_s)
        at_s += float(GLM.price(of, depths=(depth,))[0].costs.latency_s[0])
        drafts.append(depth > 0)
    assert at_s > 30 and sum(one != other for one, other in pairwise(drafts)) <= 2


@pytest.mark.parametrize("objective", [SPEED, ENERGY])
@given(st.sampled_from(sorted(WAYS)), st.lists(st.tuples(st.integers(1, 48), st.integers(0, 20_000)), min_size=1))
def test_by_cost_no_batch_is_worse_off_than_in_the_better_mode_but_for_the_margin(
    objective: str, named: tuple[str, str], batches: list[tuple[int, int]]
) -> None:
    step_options = WAYS[named]
    cost = modes("cost", step_options, objective=objective)
    for batch, context in batches:
        of = plan(batch, context)
        options = {option.depth: option for option in step_options.price(of, depths=(PLAIN, step_options.calibrated))}
        worth = {d: w.tokens_per_s if objective == SPEED else w.tokens_per_j for d, w in options.items()}
        assert worth[step(cost, step_options, of)[0]] >= (1 - MARGIN) * max(worth.values())


@pytest.mark.parametrize("objective", [SPEED, ENERGY])
@pytest.mark.parametrize("prompt", [16, 256, 4096])
def test_by_cost_a_prompt_beside_it_changes_no_mode_that_is_far_better(objective: str, prompt: int) -> None:
    """A prompt takes its time in either mode: it makes the tokens of a step with drafts look cheap, which they are not
    where the same batch decodes six times as fast plainly."""
    slow = StepOptions(load_device("elmoe3d", "elmoe3d-8gb", "gpt-oss-20b", "quant"))
    for batch in (1, 4, 8):
        assert step(modes("cost", slow, objective=objective), slow, plan(batch, prompt=prompt))[0] == PLAIN
    assert step(modes("cost", QWEN, objective=objective), QWEN, plan(16, prompt=prompt))[0] == QWEN.calibrated


def test_by_cost_says_why() -> None:
    cost = modes("cost")
    assert step(cost, GLM, plan(1))[1] == "more tokens per second"
    assert step(cost, GLM, plan(32)) == (GLM.calibrated, "more tokens per second")
    assert step(modes("cost", objective=ENERGY), GLM, plan(32))[1] == "more tokens per joule"
    # A mode that is as good but for a little is kept.
    step_options = WAYS["elmoe3d-4gb", "qwen3-30b-a3b"]
    by_cost = modes("cost", step_options)
    seen = [step(by_cost, step_options, plan(batch)) for batch in (8, 3, 2, 3)]
    assert [depth > 0 for depth, _ in seen] == [True, True, False, False]
    assert (seen[1][1], seen[3][1]) == ("as good", "more tokens per second")


def test_an_automatic_depth_is_never_slower_than_the_calibrated_one_and_not_always_it() -> None:
    step_options = WAYS["elmoe3d-4gb", "qwen3-30b-a3b"]
    auto = modes("fixed-sd", step_options, depth="auto")
    chosen = set()
    for batch in (1, 16, 64):
        of = plan(batch)
        depth, _ = step(auto, step_options, of)
        chosen.add(depth)
        best, calibrated = step_options.price(of, depths=(depth, step_options.calibrated))
        assert best.tokens_per_s >= calibrated.tokens_per_s
        assert depth <= step_options.calibrated
    assert len(chosen) > 1


@pytest.mark.parametrize("depth", ["23", "999999999"])
def test_a_depth_that_cannot_be_drafted_is_refused(depth: str) -> None:
    with pytest.raises(UsageError, match="1 to 22, or auto"):
        modes("tau", depth=depth)


@pytest.mark.parametrize("depth", ["0", "deep", "-1", "1.5", "\u0665", "9" * 5000])
def test_what_is_no_depth_is_refused_by_the_scenario(depth: str) -> None:
    with pytest.raises(ScenarioError, match="it must be a whole number of at least 1, or auto"):
        Scenario(depth=depth)


def test_without_a_draft_nothing_speculates_and_nobody_may_ask_for_it() -> None:
    plain = StepOptions(load_device("xpu", "elmoe3d-8gb", "glm-4.7-flash"))
    assert step(modes("tau", plain), plain, plan(16)) == (PLAIN, "no draft")
    with pytest.raises(UsageError, match="there is no draft"):
        modes("fixed-sd", plain)


def test_a_device_in_another_condition_goes_on_in_its_mode_and_with_its_changes() -> None:
    """Were each change of condition a beginning, it could change its mode with each."""
    wavering, modes_, at_s = [], modes("tau", QWEN), 0.0
    for turn in range(40):
        again = modes("tau", QWEN)
        again.go_on_from(modes_)
        modes_ = again
        depth, _ = step(modes_, QWEN, plan(1 if turn % 2 else 16), at_s)
        wavering.append(depth > 0)
        at_s += 0.5
    assert sum(one != other for one, other in pairwise(wavering)) <= 4


def test_what_a_token_costs_is_worked_out_once_for_all_devices_of_a_kind() -> None:
    priced = list[StepPlan]()

    class Counting(StepOptions):
        def price(
            self,
            plan: StepPlan,
            steps: int = 1,
            ext_bytes_per_s: float | None = None,
            depths: Sequence[int] = (PLAIN,),
        ) -> list[StepOption]:
            priced.append(plan)
            return super().price(plan, steps, ext_bytes_per_s, depths)

    model = Counting(QWEN.device)
    batches = [DecodeBatch(decoding, 1024 * decoding, 0, 0.0, model.device.ext_bytes_per_s) for decoding in (2, 8)]
    verdicts, asked = [], []
    for device in (modes("tau", model), modes("tau", model)):
        verdicts.append([device.candidates(batch)[1] for batch in batches])
        asked.append(len(priced))
    assert 0 < asked[0] == asked[1]
    assert verdicts[0] == verdicts[1]
