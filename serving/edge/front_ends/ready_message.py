"""What a front end of vLLM's is told of its engine."""

from vllm.config import VllmConfig
from vllm.v1.engine import EngineCoreReadyResponse
from vllm.version import __version__ as VLLM_VERSION  # as vLLM calls it


def described(config: VllmConfig, kv_tokens: int, block_tokens: int) -> EngineCoreReadyResponse:
    """Return what a front end is told of its engine: the devices, of which it sees one, and their KV caches."""
    scheduler, parallel = config.scheduler_config, config.parallel_config
    return EngineCoreReadyResponse(
        max_model_len=config.model_config.max_model_len,
        num_gpu_blocks=kv_tokens // block_tokens,
        block_size=block_tokens,
        dp_stats_address=None,
        dtype=str(config.model_config.dtype).removeprefix("torch."),
        vllm_version=VLLM_VERSION,
        world_size=parallel.world_size,
        data_parallel_size=1,
        tensor_parallel_size=parallel.tensor_parallel_size,
        pipeline_parallel_size=parallel.pipeline_parallel_size,
        decode_context_parallel_size=parallel.decode_context_parallel_size,
        data_parallel_rank=0,
        max_num_seqs=scheduler.max_num_seqs,
        max_num_batched_tokens=scheduler.max_num_batched_tokens,
        instance_id=config.instance_id,
        supports_lora=False,
        max_loras=0,
        kv_cache_size_tokens=kv_tokens,
    )
