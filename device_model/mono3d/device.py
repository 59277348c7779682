"""A model on monolithic 3D DRAM: prompts on the xPU, decoding near memory, experts where their topic wants them."""

from device_model.device import Execution
from device_model.experts.route_map import Routers
from device_model.experts.topic_usage import TopicUsage
from device_model.mono3d.exchanges import Exchanges
from device_model.mono3d.layout import lay_out
from device_model.mono3d.near_parts import Groups, NearParts
from device_model.mono3d.row_reads import RowReads, expected_reads
from device_model.mono3d.row_swap import RowSwap, Slots
from device_model.mono3d.row_times import RowTimes
from device_model.mono3d.setup import Mono3dSetup
from device_model.mono3d.split_plan import split
from device_model.mono3d.topic_ranks import Mix, TopicRanks
from device_model.mono3d.xpu_parts import prefill, xpu_unit
from device_model.one_tier.device import OneTierDevice
from device_model.one_tier.memory import one_tier
from device_model.roofline import TARGET, Stage, Unit
from device_model.specs.calibrated import Mono3dCalibration
from device_model.specs.fitted import read_calibration
from device_model.specs.hardware import Hardware
from device_model.specs.kinds import mono3d
from device_model.specs.spec import DeviceError, Model
from device_model.step import Energy, Seconds, StageEnergy, StepCost, StepPlan, Traffic
from device_model.work import StepWork

NO_TOPICS = "The plan has experts placed by topic, or routes, and the device knows no topics: give it a table first"
# Batches whose parts are remembered, all but attention, which alone depends on contexts.
KNOWN = 256


class Mono3dDevice(OneTierDevice):
    """Stratum. `hit_rate` is the share of hot choices in place of the model's published one."""

    kind = mono3d.KIND
    places_experts = True
    setup: Mono3dSetup

    def __init__(self, setup: Mono3dSetup, hit_rate: float | None = None) -> None:
        hardware, calibration = setup.hardware, setup.calibration
        die_w = hardware.dies * hardware.die_tdp_w
        super().__init__(setup, die_w * calibration.idle_power_share, xpu_unit(setup))
        self.working_w = die_w * calibration.die_power_share
        # Of the logic dies, beside their MACs: they rest while the xPU computes prompts (3.2).
        self.near_w = hardware.chips * hardware.logic_w
        self.times = RowTimes(hardware)
        self.layout = lay_out(setup.model, self.size, hardware, calibration.kv_share_of_free_rows)
        expert_bytes = float(self.layout.expert_rows * self.size.experts * hardware.row_bytes_of_all)
        self.placement = one_tier(self.size, self.hb.capacity_bytes, "chips", expert_bytes)
        self.ranks: TopicRanks | None = None
        self._hit_rate = hit_rate
        self._near = NearParts(setup, self.size, self.layout, self.times)
        self._exchanges = Exchanges(setup, self.size)
        self._batches: dict[tuple[int, int, int, float], tuple[Groups, RowReads]] = {}

    @classmethod
    def setup_of(cls, target: str, hardware: Hardware, model: Model) -> Mono3dSetup:
        if not isinstance(hardware, mono3d.Hardware):
            raise DeviceError(f"The hardware is of the kind {hardware.kind}; allowed is {cls.kind} here.")
        calibration = read_calibration(Mono3dCalibration, hardware.calibration)
        return Mono3dSetup(target, hardware, model, calibration)

    def know_topics(self, usage: TopicUsage) -> None:
        """Let plans say by topic which experts lie in the fast rows: experts are used as `usage` has it, no longer as
        published. DeviceError for a model without experts."""
        model = self.setup.model
        if not model.experts:
            raise DeviceError("Only experts can be placed by topic, and the model has none.")
        routers = Routers(model.expert_layers, model.experts, model.top_k)
        self.ranks = TopicRanks(usage, routers, self.slots())
        self.forget()

    def slots(self) -> Slots:
        """Return the places of its experts."""
        return Slots(self.setup.model, self.layout, self.times, self.setup.hardware)

    def execute(self, plan: StepPlan, work: StepWork, unit: Unit) -> Execution:
        if self.ranks is None and (plan.placed is not None or plan.routes is not None):
            raise ValueError(NO_TOPICS)
        if work.decoding == work.sequences:
            return self._decode(plan, work, unit)
        if not work.decoding:
            return self._prefill(plan, work, unit)
        prompts, decoding = split(plan)
        first = self._prefill(prompts, StepWork.of(prompts, _steps(work)), unit)
        then = self._decode(decoding, StepWork.of(decoding, _steps(work)), unit)
        return Execution(
            (*first.stages, *then.stages),
            first.expert_lookups + then.expert_lookups,
            first.expert_hits + then.expert_hits,
        )

    def swap(self, plan: StepPlan, before: Mix | None) -> RowSwap:
        """Return the swap that places experts for the mix of `plan` where they were placed for `before` (None: for all
        topics alike). Raise ValueError for a plan that places nothing, a mix that means nothing, or a device without
        topics.
        """
        if self.ranks is None or plan.placed is None:
            raise ValueError(NO_TOPICS)
        return self.ranks.slots.swap(self.ranks.places(before), self.ranks.places(plan.placed))

    def swap_cost(self, plan: StepPlan, before: Mix | None, ext_bytes_per_s: float | None = None) -> StepCost:
        """Return the cost of a swap, as that of a step in which nothing computes."""
        return self.swapped(self.swap(plan, before))

    def expected_swap(self) -> RowSwap:
        """Return the swap between two unknown topics. Raise DeviceError for a model without experts."""
        if not self.setup.model.experts:
            raise DeviceError("Only experts change their places with the topic, and the model has none.")
        return self.slots().expected_swap(self.setup.calibration.kept_share)

    def swapped(self, swap: RowSwap) -> StepCost:
        """Return the cost of a swap."""
        static_j = swap.seconds * (self.working_w + self.near_w)
        return StepCost(
            latency_s=swap.seconds,
            energy=Energy(0.0, 0.0, swap.joules, 0.0, static_j),
            traffic=Traffic(swap.bytes, 0.0),
            expert_lookups=0.0,
            expert_hits=0.0,
            seconds=Seconds(0.0, swap.seconds, 0.0),
            stage_energy=StageEnergy(0.0, swap.joules + static_j),
        )

    def _prefill(self, plan: StepPlan, work: StepWork, unit: Unit) -> Execution:
        touch = self._reads(plan, work).touch
        return Execution((Stage(TARGET, 1, prefill(self.size, work, touch, unit)),), touch.touched, touch.hot)

    def _decode(self, plan: StepPlan, work: StepWork, unit: Unit) -> Execution:
        groups, reads = self._batch(plan, work, unit)
        rows = self.size.kv_held_bytes(work) / self.setup.hardware.row_bytes_of_all
        stage = Stage(TARGET, 1, (*groups, *self._near.attention(work, rows)), self._exchanges.wait_s(), self.near_w)
        return Execution((stage,), reads.touch.touched, reads.touch.hot)

    def _batch(self, plan: StepPlan, work: StepWork, unit: Unit) -> tuple[Groups, RowReads]:
        """All groups but attention's, which are the same for as long as a batch decodes."""
        key = (work.tokens, work.prefill_tokens, work.logits, unit.ext_bytes_per_s)
        known = self._batches.get(key) if self.ranks is None else None
        if known is None:
            reads = self._reads(plan, work)
            near = self._near
            known = (*near.dense(work), *near.experts(reads), *self._exchanges.groups(work, reads, unit)), reads
            if self.ranks is None:
                if len(self._batches) >= KNOWN:
                    self._batches.clear()
                self._batches[key] = known
        return known

    def _reads(self, plan: StepPlan, work: StepWork) -> RowReads:
        if self.ranks is not None:
            return self.ranks.reads(plan)
        return expected_reads(self.setup.model, self.layout, self.times, work, self._hit_rate)


def _steps(work: StepWork) -> int:
    """How many steps `work` is of."""
    return 1 if isinstance(work.kv_tokens, float) else len(work.kv_tokens)
