"""A device's proxies of the other actors: the methods of their plain objects, with as little waiting as possible."""

import threading
import time
from collections.abc import Sequence

from device_model.step import StepCost, StepPlan
from serving.clock import WallClock
from serving.cluster.streams.edge_tokens import EdgeTokens
from serving.cluster.streams.rpc import RpcClient
from serving.cluster.streams.sockets import Address
from serving.cluster.streams.stream import Sender
from serving.device.device_spec import DeviceSpec
from serving.policies.placed_plan import Mix
from serving.policies.step_option import DraftedStep, Progress, StepOption
from serving.policies.turnover import CostQuestion, TokenCost
from serving.types import Batch, Done, Release

# The most releases that wait for the next one.
MAX_WAITING = 16
# Real seconds: a device that is so late sends what it has within as many more in one message.
LATE_S = 1e-3
# Real seconds for which the engine core need not hear of tokens that edges of their own have got from here; the thread
# that reports progress tells of what is left as often.
TOLD_S = 0.1
# Leases in a row without an answer, after which Ray is asked whether the tier's actor is still there.
MOST_UNANSWERED = 16
# Leases in a row of which a tier that nobody shares hears of the last: a call for each took a sixth of a core while 256
# users began on 16 devices.
TOGETHER = 16


class RemotePlanner:
    """A proxy of a device's scheduler."""

    def __init__(self, rpc: RpcClient) -> None:
        self._rpc = rpc

    def plan(self, at_s: float, now_s: float, last_s: float, done: Done) -> Batch:
        """Return the next batch, as `Scheduler.plan` does."""
        batch: Batch = self._rpc.call("plan", Batch, at_s, now_s, last_s, done)
        return batch


class RemoteModel:
    """A proxy of the device model, for one device: it asks for that device's present `spec`."""

    def __init__(self, rpc: RpcClient, spec: DeviceSpec) -> None:
        self._rpc = rpc
        self.spec = spec

    def price(
        self, plan: StepPlan, steps: int, ext_bytes_per_s: float | None, depths: Sequence[int]
    ) -> list[StepOption]:
        """Price steps, as `StepOptions.price` does."""
        options: list[StepOption] = self._rpc.call(
            "price", list[StepOption], self.spec, plan, steps, ext_bytes_per_s, depths
        )
        return options

    def draft(
        self, plan: StepPlan, progress: Progress, steps: int, ext_bytes_per_s: float | None, depth: int
    ) -> list[DraftedStep]:
        """Price steps that draft, as `StepOptions.draft` does."""
        drafted: list[DraftedStep] = self._rpc.call(
            "draft", list[DraftedStep], self.spec, plan, progress, steps, ext_bytes_per_s, depth
        )
        return drafted

    def move(self, to_hb: int, to_ext: int, ext_bytes_per_s: float | None) -> StepCost:
        """Return the cost of moving KV caches between the tiers, as `StepOptions.move` does."""
        cost: StepCost = self._rpc.call("move", StepCost, self.spec, to_hb, to_ext, ext_bytes_per_s)
        return cost

    def swap(self, plan: StepPlan, before: Mix | None, depth: int, ext_bytes_per_s: float | None) -> StepCost:
        """Return the cost of placing a plan's experts in HB, as `StepOptions.swap` does."""
        cost: StepCost = self._rpc.call("swap", StepCost, self.spec, plan, before, depth, ext_bytes_per_s)
        return cost

    def token_costs(self, depths: tuple[int, ...], question: CostQuestion) -> list[TokenCost]:
        """Return what a token costs later, as `StepOptions.token_costs` does."""
        costs: list[TokenCost] = self._rpc.call("token_costs", list[TokenCost], self.spec, depths, question)
        return costs


class TierLease:
    """A device's proxy of its slow tier: it waits for the first lease only, later ones hold once they are here.

    Of a shared tier it also waits for the first lease after each idle time: others may have come meanwhile. A tier of
    its own grants it the same always, and hears of every `TOGETHER`th lease.
    `share` is what a throttled device can draw of the granted bandwidth.
    """

    def __init__(self, rpc: RpcClient, shared: bool, share: float) -> None:
        self._rpc = rpc
        self._shared = shared
        self._granted_bytes_per_s: float | None = None
        self._unanswered = 0
        self._untold = 0
        self.share = share

    def lease(self, device: int, traffic_bytes: float, elapsed_s: float) -> float:
        """Return the bytes per second that the device may draw from now on, as `SlowTier.lease` does."""
        # In that share of the time the full grant is what a throttled one was in all of it.
        drawn = device, traffic_bytes, elapsed_s * self.share
        self._untold += 1
        if self._granted_bytes_per_s is None:
            self._granted_bytes_per_s, self._untold = self._rpc.call("lease", float, *drawn), 0
        elif self._shared or self._untold >= TOGETHER:
            self._granted_bytes_per_s, self._untold = self._renewed(drawn, self._granted_bytes_per_s), 0
        return self._granted_bytes_per_s * self.share

    def granted_bytes_per_s(self, device: int) -> float:
        """Return the bytes per second granted last, as `SlowTier.granted_bytes_per_s` does."""
        assert self._granted_bytes_per_s is not None, "a step that is under way has a lease"
        return self._granted_bytes_per_s * self.share

    def release(self, device: int) -> None:
        """End the lease of an idle device, as `SlowTier.release` does."""
        self._rpc.tell("release", device)
        self._untold = 0
        if self._shared:
            self._granted_bytes_per_s = None

    def _renewed(self, drawn: tuple[int, float, float], before_bytes_per_s: float) -> float:
        """Ask for another lease; return what was granted by the last one that is here."""
        granted: float | None = self._rpc.latest("lease", float)
        self._unanswered = self._unanswered + 1 if granted is None else 0
        self._rpc.ask("lease", *drawn)
        if self._unanswered > MOST_UNANSWERED:
            self._rpc.look(wait=False)
        return before_bytes_per_s if granted is None else granted


class ReleaseSink:
    """A sender of releases to the edge, for the loop's steps and the feeding thread's overdue tokens.

    A step without tokens travels with the next one that has some, or by `flush_all`: where the token source is behind,
    every step comes without, and twice the messages would keep it behind. Where the device is, so do steps with tokens,
    for a moment: a token costs the edge and its client less in company, which is how all of them catch up. News of the
    prefix cache, overdue tokens and unknown requests are sent at once.

    Tokens that `edges` of their own get straight from here are told to the engine core, which is the edge else, up to
    `TOLD_S` later, and before whatever of later releases it has to hand on itself.
    """

    def __init__(self, edge: Address, clock: WallClock) -> None:
        self._sender: Sender[list[Release]] = Sender(edge)
        self._clock = clock
        self._waiting: list[Release] = []
        self._untold: list[Release] = []
        self._sent_s = self._told_s = 0.0
        self._lock = threading.Lock()
        self.edges = EdgeTokens()

    def __call__(self, release: Release) -> None:
        with self._lock:
            self._waiting.append(release)
            if len(self._waiting) >= MAX_WAITING or not self._can_wait(release):
                self._send()

    def is_late(self, at_s: float) -> bool:
        """Tell whether a release of emulated instant `at_s` would be so late now that it may wait for the next one."""
        return self._clock.late(at_s) > LATE_S

    def send_alone(self, message: bytes, late_real_s: float) -> bool:
        """Send the message of one release, `late_real_s` late. Return False if it has to go with others, or to edges of
        their own."""
        with self._lock:
            if self._waiting or self._untold or self.edges or late_real_s > LATE_S:
                return False
            self._sender.send_encoded(message)
            self._sent_s = time.monotonic()
        return True

    def flush(self) -> None:
        """Send all tokens that are held back: no step follows at once."""
        if self._waiting:
            with self._lock:
                if any(release.chunks for release in self._waiting):
                    self._send()

    def flush_all(self) -> None:
        """Send all that is held back: of a step without tokens none with any may follow for long."""
        with self._lock:
            if self._waiting:
                self._send()
            if self._untold:
                self._tell()

    def close(self, request_ids: list[str]) -> None:
        """Send no more tokens of requests straight to their edges, and tell at once of those that were sent."""
        if self.edges.know(request_ids):
            self.flush_all()
            self.edges.close(request_ids)

    def forget(self) -> None:
        """Forget all requests, and what is held back of them: the device begins anew, from what their clients have."""
        with self._lock:
            self._waiting, self._untold = [], []
        self.edges.forget()

    def _can_wait(self, release: Release) -> bool:
        if release.kv_events or release.record is None:
            return False
        if not release.chunks:
            return True
        return self.is_late(release.at_s) and time.monotonic() - self._sent_s < LATE_S

    def _send(self) -> None:
        releases, self._waiting, self._sent_s = self._waiting, [], time.monotonic()
        self._untold += releases
        if not self.edges.send(releases) or self._sent_s - self._told_s > TOLD_S:
            self._tell()

    def _tell(self) -> None:
        self._sender.send(self._untold)
        self._untold, self._told_s = [], time.monotonic()
