"""An NPU that holds a whole model in its DRAM: what Cassandra builds upon (arXiv 2605.26558), and a plain baseline."""

from device_model.one_tier.npu import NpuDevice


class Device(NpuDevice):
    """A systolic array behind a scratchpad. It decodes plainly."""
