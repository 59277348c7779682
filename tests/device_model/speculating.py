"""Devices that speculate, and steps for them: what the tests of draft schemes and of their laws share."""

from functools import lru_cache

from hypothesis import strategies as st

from device_model.load import load_device
from device_model.step import DraftShape, StepPlan

MODELS = ("qwen3-30b-a3b", "glm-4.7-flash", "deepseek-v2-lite", "gpt-oss-20b")
SCHEMES = {
    "elmoe3d": ("elastic", "random", "eagle", "slm", "quant"),
    "hb_xpu": ("eagle", "slm", "quant"),
    "xpu": ("eagle", "slm", "quant"),
}
SIZES = (4, 6, 8)
AT_1K = (1, 1024)

device = lru_cache(maxsize=None)(lambda *names: load_device(*names))
pairs = st.sampled_from([(system, draft) for system, drafts in SCHEMES.items() for draft in drafts])
models, hardware = st.sampled_from(MODELS), st.sampled_from([f"elmoe3d-{gb}gb" for gb in SIZES])
devices = st.builds(lambda pair, m, hw: device(pair[0], hw, m, pair[1]), pairs, models, hardware)
decoding = st.tuples(st.just(1), st.integers(0, 8000))
mixed = st.one_of(decoding, st.tuples(st.integers(2, 2048), st.integers(0, 8000)))
crowds = st.builds(lambda batch, times: batch * times, st.lists(decoding, min_size=1, max_size=4), st.integers(1, 16))
batches = st.one_of(crowds, st.lists(mixed, min_size=1, max_size=8))
shapes = st.builds(
    lambda d, w, more: DraftShape(d, w, d + more), st.integers(1, 14), st.integers(1, 30), st.integers(0, 50)
)


def cost(dev, batch, shape=None, **kwargs):
    return next(iter(dev.probe(StepPlan.of(*batch, draft=shape), **kwargs)))


def stages(dev, batch, shape=None):
    return dev.explain(StepPlan.of(*batch, draft=shape))


def parts(stage):
    return {part.name: part for group in stage.groups for part in group}


def held(dev, batch, shape=None):
    """What lies where during a step of `batch`, for each sequence of which that decodes a tree is drafted."""
    kv = sum(min(new + context, dev.size.window) if dev.size.window else new + context for new, context in batch)
    whole = sum(new + context for new, context in batch)
    tokens = whole - dev.size.windowed * (whole - kv)
    of_draft = dev.draft.kv_bytes_per_token if dev.draft is not None else 0.0
    if shape is not None:
        decoding = sum(new == 1 for new, _ in batch)
        tokens += decoding * (shape.verify_tokens if of_draft else shape.tokens)
        whole += decoding * shape.tokens
    return dev.placement.at(tokens * dev.size.kv_bytes_per_token + whole * of_draft)
