"""ELMoE-3D's acceptance rates by model, scheme, HB size and batch (Table 3), between its points and beyond them."""

from functools import cache, lru_cache
from math import log2
from typing import NamedTuple

import numpy as np

from device_model.device import RooflineDevice
from device_model.draft import Draft
from device_model.experts.traced_cache import PoolReads
from device_model.hb_xpu.tiered import TieredDevice
from device_model.hotness_gain import hotness_gain
from device_model.placement import TierBytes
from device_model.specs.measured_rates import POOLS, MeasuredRates
from device_model.specs.published_rates import CONTEXT, PublishedRates, read_published
from device_model.specs.spec import DeviceError
from device_model.step import DraftShape, StepPlan
from device_model.tree_law import accepted_of
from device_model.work import StepWork

HOT = "Elastic-SD"
GIB = 2**30


class Acceptance(NamedTuple):
    """A rate, and what was done to have it: nothing at a published point or between two, else a sentence."""

    alpha: float
    caveat: str = ""


@lru_cache(maxsize=4096)
def acceptance(target: str, scheme: str, hb_gb: float, batch: int) -> Acceptance:
    """Return the acceptance rate of `scheme` ("EAGLE3", "SLM-SD", "Quant-SD", "Elastic-SD") for a model, by the name of
    its spec file.

    Linear in the HB size and in the logarithm of the batch; beyond the table its edge, with a caveat. A model that is
    not in the table has the mean of those that are, with a caveat. Raise DeviceError for an unknown scheme.
    """
    schemes = sorted({key[1] for key in _table()})
    if scheme not in schemes:
        raise DeviceError(f"There is no acceptance rate of {scheme!r}; schemes that have one are {', '.join(schemes)}.")
    targets = sorted({key[0] for key in _table()})
    if batch < 1:
        raise DeviceError(f"batch is {batch}; allowed is a whole number of at least 1.")
    if target not in targets:
        alpha = sum(_between(name, scheme, hb_gb, batch) for name in targets) / len(targets)
        mean = f"{target} is not in ELMoE-3D's Table 3: {scheme} has the mean rate of its models."
        return Acceptance(alpha, f"{mean} {_caveat(hb_gb, batch)}".strip())
    return Acceptance(_between(target, scheme, hb_gb, batch), _caveat(hb_gb, batch))


def acceptance_of(device: RooflineDevice, plan: StepPlan) -> Acceptance:
    """Return the rate of the draft scheme of `device` for the sequences of `plan` that decode.

    Table 3 is of 1k context; a shorter one has its rates. The KV cache of a longer one, or of a batch beyond its
    largest, takes room from the experts (8), and a scheme that drafts with these has the rate of the HB size whose pool
    was as large. From the table's smallest size on down the rate falls in proportion to the pool, to nothing; and from
    the hardware's own on, where static weights leave no pool in the smallest: an assumption of ours. A pool of all
    experts is as good in whatever room, and where HB had more than that, what is left of one is worth its share at
    least. A random pool has the rate that a hot one of its size has alone (Fig. 17b: unlike a hot one it is no worse
    for a larger batch), less what hotness gains at that size (`hotness_gain`).

    A plan with the routes of its draft has the rate of the very pool that HB holds then (`_of_traced_pool`). Raise
    ValueError if the device has no draft, or nothing decodes.
    """
    draft, work = _drafting(device, plan)
    if not draft.pooled or not isinstance(device, TieredDevice):  # which has the same rate at each size of HB
        return acceptance(device.setup.target, draft.published, _axes()[0][-1], work.decoding)
    held, batch = device.held(work, plan.draft or draft.shape), work.decoding
    room, pool = draft.drafted_share(device, held), draft.traced_pool(device, work, held, plan)
    if pool is not None:
        return _of_traced_pool(_of_pool(device, held, 1), pool, room)
    return _of_random_pool(device, held, batch, room) if draft.drawn else _of_pool(device, held, batch)


def _of_traced_pool(alone: Acceptance, pool: PoolReads, room: float) -> Acceptance:
    """Return the rate with a pool that is known, where a hot one that fills its `room` has the rate `alone`.

    The hottest pool of its size has that, whatever the batch, one that is no hotter than chance that of a random one,
    and between them it is linear in the hotness; in proportion to the room while that is not filled: assumptions of
    ours. What a batch that shares a pool loses, this pool's own hotness says.
    """
    cold = 1.0 / hotness_gain(room)
    filled = min(1.0, pool.members / room) if room else 0.0
    return alone._replace(alpha=alone.alpha * filled * (cold + (1.0 - cold) * pool.hotness))


def _of_random_pool(device: TieredDevice, held: TierBytes, batch: int, room: float) -> Acceptance:
    alone, gain = _of_pool(device, held, 1), hotness_gain(room)
    caveat = f"Random-SD: Elastic-SD's rate with a pool of this size / {gain:.2f} (Fig. 17a). {alone.caveat}"
    # Never more than hotness, at which a batch tells.
    return Acceptance(min(alone.alpha / gain, _of_pool(device, held, batch).alpha), caveat.strip())


def _of_pool(device: TieredDevice, held: TierBytes, batch: int) -> Acceptance:
    """Return Elastic-SD's rate at a batch, with the pool that what HB has `held` leaves room for."""
    target, hb_gb = device.setup.target, device.hb.capacity_bytes / GIB
    if not device.size.experts:  # drafts of a dense model need no pool that could be squeezed
        return acceptance(target, HOT, hb_gb, batch)
    sizes, batches = _axes()
    assert device.draft is not None
    at_1k = device.held(StepWork.of(batch_plan(min(batch, batches[-1])), 1), device.draft.shape)
    share, share_at_1k = (device.draft.drafted_share(device, each) for each in (held, at_1k))
    if share >= 1.0:
        return acceptance(target, HOT, hb_gb, batch)
    alike_gb = hb_gb - float(held.hb_kv_bytes - at_1k.hb_kv_bytes) / GIB
    edge_gb, pool_gb, most_gb = sizes[0], *(float(each.hb_expert_bytes) / GIB for each in (held, at_1k))
    edge_pool_gb = pool_gb - (alike_gb - edge_gb)
    if edge_pool_gb <= 0.0:  # static weights leave none in so small an HB
        edge_gb, edge_pool_gb = hb_gb, most_gb
    whole = acceptance(target, HOT, hb_gb, batch).alpha if share_at_1k >= 1.0 else 0.0
    if 0.0 < edge_pool_gb <= pool_gb:
        found = acceptance(target, HOT, min(alike_gb, hb_gb), batch)
        return found._replace(alpha=max(found.alpha, whole * share))
    edge = acceptance(target, HOT, edge_gb, batch)
    caveat = f"HB has room for a smaller pool than any in Table 3: the rate at {edge_gb:g} GB, in proportion."
    left = pool_gb / edge_pool_gb if edge_pool_gb else 0.0
    return Acceptance(max(edge.alpha * left, whole * share), f"{caveat} {edge.caveat}".strip())


def measured_of(device: RooflineDevice, plan: StepPlan, rates: MeasuredRates) -> Acceptance:
    """Return the acceptance by rates that were measured, with as large a share of the experts in the pool; a scheme of
    which none were has its published one, and a caveat. Raise ValueError as `acceptance_of` does."""
    draft, work = _drafting(device, plan)
    pool = POOLS.get(draft.published)
    if pool is None:
        published = acceptance_of(device, plan)
        return published._replace(caveat=f"{draft.published} was not measured: its published rate. {published.caveat}")
    share = 1.0
    if isinstance(device, TieredDevice):
        held = device.held(work, plan.draft or draft.shape)
        traced = draft.traced_pool(device, work, held, plan)
        share = draft.drafted_share(device, held) if traced is None else traced.members
    alpha = rates.alpha(pool, share, work.decoding)
    # Chains were measured.
    chain, depth = DraftShape(rates.depth, 1, rates.depth), draft.shape.depth
    return Acceptance(accepted_of(alpha, chain, draft.shape) / depth)


def _drafting(device: RooflineDevice, plan: StepPlan) -> tuple[Draft, StepWork]:
    draft, work = device.draft, StepWork.of(plan, 1)
    if draft is None or not work.decoding:
        raise ValueError("Acceptance is asked of a device without a draft, or of a plan in which nothing decodes")
    return draft, work


def _between(target: str, scheme: str, hb_gb: float, batch: int) -> float:
    """Bilinear between the four points around, and at most as far as the table's edges."""
    sizes, batches = _axes()
    low, high, share = _bracket(sizes, hb_gb)
    first, last, part = _bracket([log2(b) for b in batches], log2(batch))
    rates = _table()
    corners = [[rates[target, scheme, sizes[i], batches[j]] for j in (first, last)] for i in (low, high)]
    near, far = (a + (b - a) * part for a, b in corners)
    return near + (far - near) * share


def _bracket(points: list[float], at: float) -> tuple[int, int, float]:
    """Return the indices of the points around `at`, and how far it is from the first to the second."""
    at = min(max(at, points[0]), points[-1])
    last = next(i for i, point in enumerate(points) if point >= at)
    first = max(last - 1, 0)
    width = points[last] - points[first]
    return first, last, (at - points[first]) / width if width else 0.0


def _caveat(hb_gb: float, batch: int) -> str:
    sizes, batches = _axes()
    beyond = []
    if not sizes[0] <= hb_gb <= sizes[-1]:
        beyond.append(f"{hb_gb:g} GB of HB")
    if not batches[0] <= batch <= batches[-1]:
        beyond.append(f"a batch of {batch}")
    return f"Beyond ELMoE-3D's Table 3 ({', '.join(beyond)}): its nearest rate." if beyond else ""


@cache
def _axes() -> tuple[list[float], list[int]]:
    """Return the sizes of HB and the batches of Table 3; not to be written to."""
    return sorted({key[2] for key in _table()}), sorted({key[3] for key in _table()})


@cache
def _table() -> PublishedRates:
    return read_published()


@lru_cache(maxsize=64)
def batch_plan(batch: int) -> StepPlan:
    """Return a decode step of so many sequences at the context of Table 3."""
    return StepPlan(np.ones(batch, dtype=np.int64), np.full(batch, CONTEXT, dtype=np.int64))
