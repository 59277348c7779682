"""GPUs under vLLM: the baselines of Stratum (arXiv 2510.05245, Table 2), and a yardstick for every other system."""

from device_model.one_tier.gpu import GpuDevice


class Device(GpuDevice):
    """One GPU, or several that share each layer. It decodes plainly."""
