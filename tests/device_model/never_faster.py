"""The laws that more work is never done faster, and no work slower on more HB, as they hold with two tiers.

HB has more bandwidth than EXT, and is the slower of both all the same where it has most to deliver. What it has no more
room for EXT delivers meanwhile: HB is spared those bytes, and a step the time of these at most. And drafts that are
confined to the experts in HB (ELMoE-3D, 4.2) meet fewer in a smaller pool, down to fewer than top-k a layer: they read
and compute less, by no larger a share than the pool has lost. (Fewer of them are accepted: see `test_acceptance`.)
"""

from tests.device_model.speculating import held, stages

NEARLY = 1 - 1e-9
POOL = "experts in the pool"


def check_never_faster(dev, less, more, shape=None):
    """Check each stage of a step of `less`, to which `more` adds context or a sequence."""
    fewer, many = pool_of(dev, less, shape), pool_of(dev, more, shape)
    lost = 1 - many / fewer if fewer else 0.0
    for stage, before in zip(stages(dev, more, shape), stages(dev, less, shape), strict=True):
        groups = zip(stage.groups, before.groups, strict=True)
        spared_s = before.repeats * sum(spared(group, earlier, lost) for group, earlier in groups)
        after, earlier = stage.totals(max), before.totals(max)
        assert after.exposed_s == earlier.exposed_s == 0
        assert after.plain_s >= earlier.plain_s * NEARLY - spared_s


def spared(group, before, lost):
    """Seconds that the group is spared at most, of what it took `before`. It asks no less of EXT and of compute, and HB
    is spared only what EXT has to deliver instead; unless it is that of drafts in a pool that has `lost` a share."""
    if before[0].name == POOL:
        return max(before[0].times()) * lost
    for part, earlier in zip(group, before, strict=True):
        assert part.macs >= earlier.macs * NEARLY
    hb_bytes, were_hb = (sum(part.hb_bytes for part in parts) for parts in (group, before))
    ext_bytes, were_ext = (sum(part.ext_bytes for part in parts) for parts in (group, before))
    assert ext_bytes >= were_ext * NEARLY
    assert hb_bytes + ext_bytes >= (were_hb + were_ext) * NEARLY
    return max(were_hb - hb_bytes, 0.0) / before[0].unit.hb_bytes_per_s


def check_never_slower(less, more, batch, shape=None):
    """Check each group of a step on `more` HB beside that on `less`. Only the pool of drafts may take longer, as it has
    more members: by no larger a factor."""
    pools = pool_of(more, batch, shape), pool_of(less, batch, shape)
    for stage, before in zip(stages(more, batch, shape), stages(less, batch, shape), strict=True):
        assert stage.totals(max).exposed_s == before.totals(max).exposed_s == 0
        for group, earlier in zip(stage.groups, before.groups, strict=True):
            took_s, before_s = (max(max(part.times()) for part in parts) for parts in (group, earlier))
            if group[0].name == POOL:
                assert not pools[1] or took_s <= before_s * max(pools[0] / pools[1], 1.0) / NEARLY
            else:
                assert took_s <= before_s / NEARLY


def pool_of(dev, batch, shape):
    """The share of all experts in the pool that drafts are confined to, 0 without one."""
    return dev.draft.pool(dev, held(dev, batch, shape)) if dev.draft is not None and dev.draft.pooled else 0.0
