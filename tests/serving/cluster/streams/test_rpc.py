"""Do calls come back with what was returned, or went wrong, also from whoever takes the place of the other side?"""

import asyncio
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from device_model.step import StepCosts, StepPlan
from serving.clock import WallClock
from serving.cluster.actor_proxies import TOGETHER, RemoteModel, RemotePlanner, TierLease
from serving.cluster.device_calls import DeviceCalls
from serving.cluster.endpoints.scheduler import SchedulerService
from serving.cluster.endpoints.tier import TierService
from serving.cluster.streams import rpc, sockets
from serving.cluster.streams.async_rpc import AsyncRpcClient
from serving.cluster.streams.rpc import RpcClient, RpcError, RpcServer
from serving.cluster.streams.sockets import Address
from serving.cluster.supervision.deaths import StateLost
from serving.device.device_models import DeviceModels
from serving.device.device_spec import DeviceSpec
from serving.policies.prompt_load import PromptLoad
from serving.policies.step_option import PLAIN, Progress, StepOption
from serving.policies.turnover import CostQuestion
from serving.scenario.fleet import Member
from serving.scenario.scenario import Scenario
from serving.scheduler.config import Limits, SchedulerRules
from serving.types import Batch, Done, DroppedMessages, Request
from tests import patience

PATIENCE_S = 20.0
LIMITS, RULES = Limits(4, 256, 4096), SchedulerRules()


until = partial(patience.until, within_s=PATIENCE_S)


class Calculator:
    """Has state, and limits."""

    def __init__(self) -> None:
        self.told = list[int]()

    def divide(self, a: float, b: float) -> float:
        return a / b

    def tell(self, numbers: list[int]) -> None:
        self.told += numbers

    def forget(self) -> None:
        raise StateLost("It was restarted.")


class Actor:
    """What Ray would say of an actor: where it is now."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._lives = folder, 0
        self.dropped: list[DroppedMessages] = []
        self.address = SimpleNamespace(remote=lambda: self.at)

    def live(self, *methods: Any) -> RpcServer:
        """A process of it begins, in which these methods can be called."""
        self._lives += 1
        server = RpcServer(methods, self._folder, f"life-{self._lives}", False)
        self.at: Address = server.address
        threading.Thread(target=server.run, args=[self.dropped.append], daemon=True).start()
        return server


@pytest.fixture
def actor(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Actor:
    monkeypatch.setattr(sockets, "this_node", lambda: "here")
    monkeypatch.setattr(rpc.ray, "get", lambda answer: answer)
    monkeypatch.setattr(rpc.ray, "wait", lambda refs, timeout: (refs, []))
    return Actor(tmp_path_factory.mktemp("r").absolute() / "run")


def test_a_call_returns_what_its_method_does_and_raises_what_went_wrong(actor: Actor) -> None:
    calculator = Calculator()
    actor.live(calculator.divide, calculator.forget)
    client = RpcClient(actor)
    assert client.call("divide", float, 1, 4) == 0.25
    for arguments, said in (((1, 0), "ZeroDivisionError: float division by zero"), (("a", 1), "Expected `float`")):
        with pytest.raises(RpcError, match=said):
            client.call("divide", float, *arguments)
    with pytest.raises(RpcError, match="tell"):
        client.call("tell", None, [1])
    with pytest.raises(StateLost, match="restarted"):
        client.call("forget", None)
    assert client.call("divide", float, 1, 8) == 0.125 and not actor.dropped


def test_what_is_told_comes_in_order_and_what_fails_is_dropped(actor: Actor) -> None:
    calculator = Calculator()
    actor.live(calculator.tell, calculator.divide)
    client = RpcClient(actor)
    for number in range(100):
        client.tell("tell", [number])
    client.tell("divide", 1, 0)
    assert client.call("divide", float, 1, 1) == 1.0
    assert calculator.told == list(range(100))
    assert [dropped.count for dropped in actor.dropped] == [1] and "ZeroDivisionError" in actor.dropped[0].why


def test_who_waits_asks_the_process_that_took_its_place(actor: Actor) -> None:
    """Its first one listens, and never answers."""
    silent = RpcServer([], actor._folder, "silent", False)
    actor.at = silent.address
    client, calculator = RpcClient(actor), Calculator()
    threading.Timer(3 * rpc.PATIENCE_S, actor.live, [calculator.divide]).start()
    assert client.call("divide", float, 1, 2) == 0.5


def test_arrays_of_numbers_are_the_same_at_the_other_end(actor: Actor) -> None:
    sent = StepPlan(
        np.array([1, 300]), np.array([7, 0]), topics=np.array([-1, 2]), placed=(0.5, 0.5), decoding=np.array([0])
    )
    seen = list[StepPlan]()

    class Mirror:
        def plan(self, plan: StepPlan) -> list[StepOption]:
            seen.append(plan)
            return [StepOption(PLAIN, StepCosts(np.arange(34.0).reshape(2, 17)), np.float64(1.5))]

    actor.live(Mirror().plan)
    (option,) = RpcClient(actor).call("plan", list[StepOption], sent)
    (there,) = seen
    for name in ("new_tokens", "context", "topics", "decoding"):
        np.testing.assert_array_equal(getattr(there, name), getattr(sent, name))
        assert getattr(there, name).dtype == np.int64
    assert there.placed == sent.placed and there.draft is None and there.routes is None
    assert option.costs == StepCosts(np.arange(34.0).reshape(2, 17)) and option.tokens == 1.5


def spec(draft: str = "elastic") -> DeviceSpec:
    scenario = Scenario(draft=draft)
    return DeviceSpec.of(scenario, Member(scenario.system, scenario.hardware, draft))


def test_the_device_model_says_the_same_from_afar(actor: Actor) -> None:
    models = DeviceModels([spec()])
    actor.live(models.price, models.draft, models.move, models.swap, models.token_costs)
    remote, local = RemoteModel(RpcClient(actor), spec()), spec().load()
    plan, depths = StepPlan.of((1, 100), (1, 2000), (64, 0)), (PLAIN, local.calibrated)
    assert remote.price(plan, 3, None, depths) == local.price(plan, 3, None, depths)
    assert remote.move(100, 7, 1e9) == local.move(100, 7, 1e9)
    decoding, progress = StepPlan.of((1, 100), (1, 2000)), Progress([7, 2**60], [3, 90], [50, 2])
    drafted = remote.draft(decoding, progress, 3, None, local.calibrated)
    assert len(drafted) == 3 and drafted == local.draft(decoding, progress, 3, None, local.calibrated)
    load = PromptLoad(64.0, 1.5, 128.0, 256.0, 512.0, 16, True)
    for by_energy in (False, True):
        question = CostQuestion(8, 4, 7, load, by_energy, None)
        assert remote.token_costs((local.calibrated,), question) == local.token_costs((local.calibrated,), question)


def test_a_scheduler_from_afar_forgets_what_it_is_not_told_again(actor: Actor) -> None:
    service = SchedulerService(WallClock(time.time()))
    actor.live(service.plan, service.submit, service.abort, service.limit)
    client = RpcClient(actor)
    planner = RemotePlanner(client)
    with pytest.raises(StateLost):
        planner.plan(0.0, 0.0, -1.0, Done())
    service.reset(actor.at, LIMITS, RULES)
    client.tell("submit", Request("a", 0.0, 10, 5))
    batch = planner.plan(0.0, 0.0, -1.0, Done())
    assert isinstance(batch, Batch) and batch.ids == ["a"] and batch.new_tokens == [10]
    client.tell("abort", ["a", "never there"])
    assert planner.plan(0.1, 0.1, 0.0, Done(1)).ids == []


def test_a_scheduler_tells_once_how_long_the_news_of_an_arrival_took(actor: Actor) -> None:
    clock = WallClock(time.time() - 100.0, speed=2.0)
    service = SchedulerService(clock)
    actor.live(service.plan)
    service.reset(actor.at, LIMITS, RULES)
    service.submit(Request("a", clock.now() - 1.0, 10, 5))
    service.submit(Request("begun elsewhere", 0.0, 10, 5, released=2))
    service.submit(Request("of a device that is gone", 0.0, 10, 5, kv_lost=True))
    (late_s,) = service.plan(clock.now(), clock.now(), -1.0, Done()).news_s
    assert 0.5 <= late_s < 1, "real seconds, not the clock's own"
    assert service.plan(clock.now(), clock.now(), 0.0, Done(1)).news_s == []


def test_a_lease_is_waited_for_once_and_later_ones_hold_when_they_are_here(actor: Actor) -> None:
    service = TierService(8.0)
    actor.live(service.lease, service.release)
    mine, other = TierLease(RpcClient(actor), True, 0.5), TierLease(RpcClient(actor), True, 1.0)
    assert mine.lease(0, 0.0, 0.0) == 4.0
    assert other.lease(1, 0.0, 0.0) == 4.0  # 8 between two
    assert mine.lease(0, 8.0, 1.0) == 4.0  # what was granted before the other came

    def leased() -> float:
        return mine.lease(0, 4.0, 1.0)

    until(lambda: leased() == 2.0)
    assert mine.granted_bytes_per_s(0) == 2.0
    other.release(1)

    def begun_anew() -> float:
        mine.release(0)
        return mine.lease(0, 0.0, 0.0)

    until(lambda: begun_anew() == 4.0)


def test_a_tier_that_nobody_shares_is_asked_seldom(actor: Actor) -> None:
    heard = list[tuple[str, float, float]]()

    class Tier(TierService):
        def lease(self, device: int, traffic_bytes: float, elapsed_s: float) -> float:
            heard.append(("lease", traffic_bytes, elapsed_s))
            return super().lease(device, traffic_bytes, elapsed_s)

        def release(self, device: int) -> None:
            heard.append(("release", 0.0, 0.0))

    service = Tier(8.0)
    actor.live(service.lease, service.release)
    tier, leases = TierLease(RpcClient(actor), False, 0.5), 5 * TOGETHER + 3
    assert {tier.lease(0, 3.0, 2.0) for _ in range(leases)} == {4.0}
    tier.release(0)
    until(lambda: ("release", 0.0, 0.0) in heard)
    assert [kind for kind, _, _ in heard] == ["lease"] * 6 + ["release"]
    assert heard[1] == ("lease", 3.0, 1.0)
    assert tier.lease(0, 0.0, 0.0) == 4.0, "without a call: nobody has come meanwhile"
    assert len(heard) == 7


def test_on_a_loop_many_wait_at_once_and_none_for_ever(actor: Actor) -> None:
    opened = list[str]()

    class Service:
        def open(self, request_id: str, position: int, inbox: Address | None) -> None:
            if position < 0:
                raise ValueError("before the first")
            opened.append(request_id)

        def submit(self, request: Request) -> None:
            opened.append(f"submitted {request.id}")

        def abort(self, request_ids: list[str]) -> None:
            opened.extend(f"aborted {id}" for id in request_ids)

        def close(self, request_ids: Sequence[str]) -> None:
            opened.extend(f"closed {id}" for id in request_ids)

    async def main() -> None:
        service = Service()
        actor.live(service.open, service.submit, service.abort, service.close)
        calls = DeviceCalls()
        calls.submit(Request("nobody hears", 0.0, 1, 1))
        with pytest.raises(ConnectionError):
            await calls.open("nobody hears", 0)
        calls.connect(actor.at, actor.at)
        await asyncio.gather(*(calls.open(str(number), number) for number in range(200)))
        assert sorted(opened, key=int) == [str(number) for number in range(200)]
        with pytest.raises(RpcError, match="before the first"):
            await calls.open("a", -1)
        calls.submit(Request("b", 0.0, 1, 1))
        calls.drop(["b"])
        await calls.open("c", 0)
        while len(opened) < 204:
            await asyncio.sleep(0.01)
        assert opened.index("submitted b") < opened.index("aborted b") and "closed b" in opened
        calls.close()
        calls.close()

    asyncio.run(main())


def test_whoever_waits_on_a_loop_is_told_when_the_other_side_is_gone(actor: Actor) -> None:
    async def main() -> None:
        silent = RpcServer([], actor._folder, "silent", False)
        client = AsyncRpcClient(silent.address)
        waiting = [asyncio.create_task(client.call("open")) for _ in range(3)]
        await asyncio.sleep(0.05)
        waiting[0].cancel()
        client.close()
        ended = await asyncio.gather(*waiting, return_exceptions=True)
        assert isinstance(ended[0], asyncio.CancelledError)
        assert all(isinstance(error, ConnectionError) for error in ended[1:])
        with pytest.raises(ConnectionError):
            await client.call("open")
        client.tell("open")

    asyncio.run(main())
