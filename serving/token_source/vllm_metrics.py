"""Label values and histogram buckets of vLLM's metrics, for ours to be the same."""

from vllm.v1.engine import FinishReason
from vllm.v1.metrics.buckets import histogram_buckets
from vllm.v1.metrics.cache_hit_source import CacheHitSource

__all__ = ["DEVICE_CACHE", "FINISH_REASONS", "histogram_buckets"]

FINISH_REASONS = tuple(str(reason) for reason in FinishReason)
DEVICE_CACHE = str(CacheHitSource.DEVICE.value)
