"""vLLM's configuration as the emulated machine has it: what its own says of a KV cache and of ranks is the token
model's."""

import copy
from typing import Any

from serving.edge.async_llm import DeviceRanks
from serving.edge.operations.utility_calls import UtilityCalls


class EmulatedConfig:
    """A configuration of vLLM's, with the devices that there are now for ranks, and their caches and batches."""

    def __init__(self, config: Any, core: UtilityCalls) -> None:
        self._config, self._devices = config, core.devices
        self._scenario = core.devices.cluster.scenario

    def __getattr__(self, name: str) -> Any:
        return getattr(self._config, name)

    @property
    def parallel_config(self) -> DeviceRanks:
        """Ranks: a device each."""
        return DeviceRanks(self._config.parallel_config, self._devices.nodes)

    @property
    def scheduler_config(self) -> Any:
        """The batch of one device."""
        scheduler = copy.copy(self._config.scheduler_config)
        scheduler.max_num_seqs = self._scenario.max_num_seqs
        scheduler.max_num_batched_tokens = self._scenario.max_num_batched_tokens
        return scheduler

    @property
    def cache_config(self) -> Any:
        """The KV cache of the device that has the smallest."""
        cache, size = copy.copy(self._config.cache_config), self._scenario.block_tokens
        held = (node.device_limits.kv_capacity_tokens for node in self._devices.present)
        cache.block_size, cache.num_gpu_blocks = size, min(held, default=0) // size
        return cache
